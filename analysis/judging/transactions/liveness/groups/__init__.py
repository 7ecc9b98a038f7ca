"""Groups that wait for what their coordinators and members have forgotten."""

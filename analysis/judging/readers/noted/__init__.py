"""What is noted of groups, without a judgement: observations and remarks."""

"""The names of all settings that Kafka defines, by what has them.

Of 2.8.2, 3.9.1, 4.0.0 and 4.1.0, as their own ConfigDefs print them. A name that is in here and not
in a class of settings is Kafka's, and not modelled.
"""

from __future__ import annotations


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_EVERY_PROCESS = _names("""
    auto.include.jmx.reporter connections.max.idle.ms metric.reporters metrics.num.samples
    metrics.recording.level metrics.sample.window.ms request.timeout.ms
    sasl.client.callback.handler.class sasl.jaas.config sasl.kerberos.kinit.cmd
    sasl.kerberos.min.time.before.relogin sasl.kerberos.service.name
    sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor
    sasl.login.callback.handler.class sasl.login.class sasl.login.connect.timeout.ms
    sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
    sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor
    sasl.login.refresh.window.jitter sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms
    sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
    sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
    sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
    sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file
    sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.private.key.passphrase
    sasl.oauthbearer.assertion.template.file sasl.oauthbearer.client.credentials.client.id
    sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.clock.skew.seconds
    sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer
    sasl.oauthbearer.jwks.endpoint.refresh.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url
    sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class sasl.oauthbearer.scope
    sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name
    sasl.oauthbearer.token.endpoint.url security.providers socket.connection.setup.timeout.max.ms
    socket.connection.setup.timeout.ms ssl.cipher.suites ssl.enabled.protocols
    ssl.endpoint.identification.algorithm ssl.engine.factory.class ssl.key.password
    ssl.keymanager.algorithm ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.location
    ssl.keystore.password ssl.keystore.type ssl.protocol ssl.provider
    ssl.secure.random.implementation ssl.trustmanager.algorithm ssl.truststore.certificates
    ssl.truststore.location ssl.truststore.password ssl.truststore.type
""")
"""What brokers and all clients have: security, sockets and metrics."""

_EVERY_CLIENT = _EVERY_PROCESS | _names("""
    bootstrap.servers client.dns.lookup client.id enable.metrics.push metadata.max.age.ms
    metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy receive.buffer.bytes
    reconnect.backoff.max.ms reconnect.backoff.ms retry.backoff.max.ms retry.backoff.ms
    sasl.mechanism sasl.oauthbearer.header.urlencode security.protocol send.buffer.bytes
""")

KAFKA_NAMES = {
    "admin": _EVERY_CLIENT
    | _names("""
        bootstrap.controllers default.api.timeout.ms retries
    """),
    "broker": _EVERY_PROCESS
    | _names("""
        add.partitions.to.txn.retry.backoff.max.ms add.partitions.to.txn.retry.backoff.ms
        advertised.host.name advertised.listeners advertised.port alter.config.policy.class.name
        alter.log.dirs.replication.quota.window.num
        alter.log.dirs.replication.quota.window.size.seconds authorizer.class.name
        auto.create.topics.enable auto.leader.rebalance.enable background.threads
        broker.heartbeat.interval.ms broker.id broker.id.generation.enable broker.rack
        broker.session.timeout.ms client.quota.callback.class compression.gzip.level
        compression.lz4.level compression.type compression.zstd.level
        connection.failed.authentication.delay.ms connections.max.reauth.ms
        control.plane.listener.name controlled.shutdown.enable controlled.shutdown.max.retries
        controlled.shutdown.retry.backoff.ms controller.listener.names
        controller.performance.always.log.threshold.ms controller.performance.sample.period.ms
        controller.quorum.append.linger.ms controller.quorum.bootstrap.servers
        controller.quorum.election.backoff.max.ms controller.quorum.election.timeout.ms
        controller.quorum.fetch.timeout.ms controller.quorum.request.timeout.ms
        controller.quorum.retry.backoff.ms controller.quorum.voters controller.quota.window.num
        controller.quota.window.size.seconds controller.socket.timeout.ms
        create.topic.policy.class.name default.replication.factor
        delegation.token.expiry.check.interval.ms delegation.token.expiry.time.ms
        delegation.token.master.key delegation.token.max.lifetime.ms delegation.token.secret.key
        delete.records.purgatory.purge.interval.requests delete.topic.enable early.start.listeners
        eligible.leader.replicas.enable fetch.max.bytes fetch.purgatory.purge.interval.requests
        follower.replication.throttled.rate group.consumer.assignors
        group.consumer.heartbeat.interval.ms group.consumer.max.heartbeat.interval.ms
        group.consumer.max.session.timeout.ms group.consumer.max.size
        group.consumer.migration.policy group.consumer.min.heartbeat.interval.ms
        group.consumer.min.session.timeout.ms group.consumer.regex.refresh.interval.ms
        group.consumer.session.timeout.ms group.coordinator.append.linger.ms
        group.coordinator.new.enable group.coordinator.rebalance.protocols group.coordinator.threads
        group.initial.rebalance.delay.ms group.max.session.timeout.ms group.max.size
        group.min.session.timeout.ms group.share.assignors group.share.delivery.count.limit
        group.share.enable group.share.heartbeat.interval.ms group.share.max.groups
        group.share.max.heartbeat.interval.ms group.share.max.record.lock.duration.ms
        group.share.max.session.timeout.ms group.share.max.share.sessions group.share.max.size
        group.share.min.heartbeat.interval.ms group.share.min.record.lock.duration.ms
        group.share.min.session.timeout.ms group.share.partition.max.record.locks
        group.share.persister.class.name group.share.record.lock.duration.ms
        group.share.session.timeout.ms group.streams.heartbeat.interval.ms
        group.streams.max.heartbeat.interval.ms group.streams.max.session.timeout.ms
        group.streams.max.size group.streams.max.standby.replicas
        group.streams.min.heartbeat.interval.ms group.streams.min.session.timeout.ms
        group.streams.num.standby.replicas group.streams.session.timeout.ms host.name
        initial.broker.registration.timeout.ms inter.broker.listener.name
        inter.broker.protocol.version internal.metadata.delete.delay.millis
        internal.metadata.log.segment.bytes internal.metadata.max.batch.size.in.bytes
        internal.metadata.max.fetch.size.in.bytes kafka.metrics.polling.interval.secs
        kafka.metrics.reporters leader.imbalance.check.interval.seconds
        leader.imbalance.per.broker.percentage leader.replication.throttled.rate
        listener.security.protocol.map listeners log.cleaner.backoff.ms
        log.cleaner.dedupe.buffer.size log.cleaner.delete.retention.ms log.cleaner.enable
        log.cleaner.io.buffer.load.factor log.cleaner.io.buffer.size
        log.cleaner.io.max.bytes.per.second log.cleaner.max.compaction.lag.ms
        log.cleaner.min.cleanable.ratio log.cleaner.min.compaction.lag.ms log.cleaner.threads
        log.cleanup.policy log.dir log.dir.failure.timeout.ms log.dirs log.flush.interval.messages
        log.flush.interval.ms log.flush.offset.checkpoint.interval.ms
        log.flush.scheduler.interval.ms log.flush.start.offset.checkpoint.interval.ms
        log.index.interval.bytes log.index.size.max.bytes log.initial.task.delay.ms
        log.local.retention.bytes log.local.retention.ms log.message.downconversion.enable
        log.message.format.version log.message.timestamp.after.max.ms
        log.message.timestamp.before.max.ms log.message.timestamp.difference.max.ms
        log.message.timestamp.type log.preallocate log.retention.bytes
        log.retention.check.interval.ms log.retention.hours log.retention.minutes log.retention.ms
        log.roll.hours log.roll.jitter.hours log.roll.jitter.ms log.roll.ms log.segment.bytes
        log.segment.delete.delay.ms max.connection.creation.rate max.connections
        max.connections.per.ip max.connections.per.ip.overrides
        max.incremental.fetch.session.cache.slots max.request.partition.size.limit message.max.bytes
        metadata.log.dir metadata.log.max.record.bytes.between.snapshots
        metadata.log.max.snapshot.interval.ms metadata.log.segment.bytes
        metadata.log.segment.min.bytes metadata.log.segment.ms metadata.max.idle.interval.ms
        metadata.max.retention.bytes metadata.max.retention.ms min.insync.replicas node.id
        num.io.threads num.network.threads num.partitions num.recovery.threads.per.data.dir
        num.replica.alter.log.dirs.threads num.replica.fetchers offset.metadata.max.bytes
        offsets.commit.required.acks offsets.commit.timeout.ms offsets.load.buffer.size
        offsets.retention.check.interval.ms offsets.retention.minutes
        offsets.topic.compression.codec offsets.topic.num.partitions
        offsets.topic.replication.factor offsets.topic.segment.bytes
        password.encoder.cipher.algorithm password.encoder.iterations password.encoder.key.length
        password.encoder.keyfactory.algorithm password.encoder.old.secret password.encoder.secret
        port principal.builder.class process.roles producer.id.expiration.check.interval.ms
        producer.id.expiration.ms producer.purgatory.purge.interval.requests
        queued.max.request.bytes queued.max.requests quota.consumer.default quota.producer.default
        quota.window.num quota.window.size.seconds remote.fetch.max.wait.ms
        remote.list.offsets.request.timeout.ms remote.log.index.file.cache.total.size.bytes
        remote.log.manager.copier.thread.pool.size remote.log.manager.copy.max.bytes.per.second
        remote.log.manager.copy.quota.window.num remote.log.manager.copy.quota.window.size.seconds
        remote.log.manager.expiration.thread.pool.size remote.log.manager.fetch.max.bytes.per.second
        remote.log.manager.fetch.quota.window.num remote.log.manager.fetch.quota.window.size.seconds
        remote.log.manager.task.interval.ms remote.log.manager.task.retry.backoff.max.ms
        remote.log.manager.task.retry.backoff.ms remote.log.manager.task.retry.jitter
        remote.log.manager.thread.pool.size remote.log.metadata.custom.metadata.max.bytes
        remote.log.metadata.manager.class.name remote.log.metadata.manager.class.path
        remote.log.metadata.manager.impl.prefix remote.log.metadata.manager.listener.name
        remote.log.reader.max.pending.tasks remote.log.reader.threads
        remote.log.storage.manager.class.name remote.log.storage.manager.class.path
        remote.log.storage.manager.impl.prefix remote.log.storage.system.enable
        replica.alter.log.dirs.io.max.bytes.per.second replica.fetch.backoff.ms
        replica.fetch.max.bytes replica.fetch.min.bytes replica.fetch.response.max.bytes
        replica.fetch.wait.max.ms replica.high.watermark.checkpoint.interval.ms
        replica.lag.time.max.ms replica.selector.class replica.socket.receive.buffer.bytes
        replica.socket.timeout.ms replication.quota.window.num replication.quota.window.size.seconds
        reserved.broker.max.id sasl.enabled.mechanisms sasl.kerberos.principal.to.local.rules
        sasl.mechanism.controller.protocol sasl.mechanism.inter.broker.protocol
        sasl.server.callback.handler.class sasl.server.max.receive.size
        security.inter.broker.protocol server.max.startup.time.ms share.coordinator.append.linger.ms
        share.coordinator.cold.partition.snapshot.interval.ms share.coordinator.load.buffer.size
        share.coordinator.snapshot.update.records.per.snapshot
        share.coordinator.state.topic.compression.codec share.coordinator.state.topic.min.isr
        share.coordinator.state.topic.num.partitions share.coordinator.state.topic.prune.interval.ms
        share.coordinator.state.topic.replication.factor share.coordinator.state.topic.segment.bytes
        share.coordinator.threads share.coordinator.write.timeout.ms share.fetch.max.fetch.records
        share.fetch.purgatory.purge.interval.requests socket.listen.backlog.size
        socket.receive.buffer.bytes socket.request.max.bytes socket.send.buffer.bytes
        ssl.allow.dn.changes ssl.allow.san.changes ssl.client.auth ssl.principal.mapping.rules
        telemetry.max.bytes transaction.abort.timed.out.transaction.cleanup.interval.ms
        transaction.max.timeout.ms transaction.partition.verification.enable
        transaction.remove.expired.transaction.cleanup.interval.ms
        transaction.state.log.load.buffer.size transaction.state.log.min.isr
        transaction.state.log.num.partitions transaction.state.log.replication.factor
        transaction.state.log.segment.bytes transaction.two.phase.commit.enable
        transactional.id.expiration.ms unclean.leader.election.enable
        unclean.leader.election.interval.ms unstable.api.versions.enable
        unstable.feature.versions.enable zookeeper.clientCnxnSocket zookeeper.connect
        zookeeper.connection.timeout.ms zookeeper.max.in.flight.requests
        zookeeper.metadata.migration.enable zookeeper.metadata.migration.min.batch.size
        zookeeper.session.timeout.ms zookeeper.set.acl zookeeper.ssl.cipher.suites
        zookeeper.ssl.client.enable zookeeper.ssl.crl.enable zookeeper.ssl.enabled.protocols
        zookeeper.ssl.endpoint.identification.algorithm zookeeper.ssl.keystore.location
        zookeeper.ssl.keystore.password zookeeper.ssl.keystore.type zookeeper.ssl.ocsp.enable
        zookeeper.ssl.protocol zookeeper.ssl.truststore.location zookeeper.ssl.truststore.password
        zookeeper.ssl.truststore.type zookeeper.sync.time.ms
    """),
    "consumer": _EVERY_CLIENT
    | _names("""
        allow.auto.create.topics auto.commit.interval.ms auto.offset.reset check.crcs client.rack
        default.api.timeout.ms enable.auto.commit exclude.internal.topics fetch.max.bytes
        fetch.max.wait.ms fetch.min.bytes group.id group.instance.id group.protocol
        group.remote.assignor heartbeat.interval.ms interceptor.classes
        internal.leave.group.on.close internal.throw.on.fetch.stable.offset.unsupported
        isolation.level key.deserializer max.partition.fetch.bytes max.poll.interval.ms
        max.poll.records partition.assignment.strategy session.timeout.ms share.acknowledgement.mode
        value.deserializer
    """),
    "producer": _EVERY_CLIENT
    | _names("""
        acks batch.size buffer.memory compression.gzip.level compression.lz4.level compression.type
        compression.zstd.level delivery.timeout.ms enable.idempotence interceptor.classes
        internal.auto.downgrade.txn.commit key.serializer linger.ms max.block.ms
        max.in.flight.requests.per.connection max.request.size metadata.max.idle.ms
        partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms
        partitioner.class partitioner.ignore.keys retries transaction.timeout.ms
        transaction.two.phase.commit.enable transactional.id value.serializer
    """),
    "topic": _names("""
        cleanup.policy compression.gzip.level compression.lz4.level compression.type
        compression.zstd.level delete.retention.ms file.delete.delay.ms flush.messages flush.ms
        follower.replication.throttled.replicas index.interval.bytes internal.segment.bytes
        leader.replication.throttled.replicas local.retention.bytes local.retention.ms
        max.compaction.lag.ms max.message.bytes message.downconversion.enable message.format.version
        message.timestamp.after.max.ms message.timestamp.before.max.ms
        message.timestamp.difference.max.ms message.timestamp.type min.cleanable.dirty.ratio
        min.compaction.lag.ms min.insync.replicas preallocate remote.log.copy.disable
        remote.log.delete.on.disable remote.storage.enable retention.bytes retention.ms
        segment.bytes segment.index.bytes segment.jitter.ms segment.ms
        unclean.leader.election.enable
    """),
}
"""Kind of client, server or topic to the names of its settings."""

KAFKA_CONFIG_NAMES = KAFKA_NAMES["broker"] - _names("""
    advertised.host.name advertised.port follower.replication.throttled.rate
    group.consumer.regex.refresh.interval.ms group.share.assignors group.share.max.share.sessions
    group.streams.heartbeat.interval.ms group.streams.max.heartbeat.interval.ms
    group.streams.max.session.timeout.ms group.streams.max.size group.streams.max.standby.replicas
    group.streams.min.heartbeat.interval.ms group.streams.min.session.timeout.ms
    group.streams.num.standby.replicas group.streams.session.timeout.ms host.name
    internal.metadata.delete.delay.millis internal.metadata.log.segment.bytes
    internal.metadata.max.batch.size.in.bytes internal.metadata.max.fetch.size.in.bytes
    leader.replication.throttled.rate port quota.consumer.default quota.producer.default
    replica.alter.log.dirs.io.max.bytes.per.second sasl.oauthbearer.assertion.algorithm
    sasl.oauthbearer.assertion.claim.aud sasl.oauthbearer.assertion.claim.exp.seconds
    sasl.oauthbearer.assertion.claim.iss sasl.oauthbearer.assertion.claim.jti.include
    sasl.oauthbearer.assertion.claim.nbf.seconds sasl.oauthbearer.assertion.claim.sub
    sasl.oauthbearer.assertion.file sasl.oauthbearer.assertion.private.key.file
    sasl.oauthbearer.assertion.private.key.passphrase sasl.oauthbearer.assertion.template.file
    sasl.oauthbearer.client.credentials.client.id sasl.oauthbearer.client.credentials.client.secret
    sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class sasl.oauthbearer.scope
    share.coordinator.cold.partition.snapshot.interval.ms transaction.two.phase.commit.enable
    zookeeper.sync.time.ms
""")
"""The settings that a broker of 3.9.1 or 4.0.0 defines (KafkaConfig.configNames).

DynamicBrokerConfig refuses to change one of these that is not dynamic; every other name passes.
What is left out has only 2.8 or 4.1, or is only dynamic."""

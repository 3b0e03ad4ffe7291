"""The broker configurations of Kafka 4.4, with their types and defaults: a table, nothing else.

One a line: name, type (`*`: it may be changed while the broker runs), default; without a default
it is null, and `""` is the empty string. Source: what a broker of 4.4.0 answers to DescribeConfigs.
"""

from typing import Final

__all__ = ["BROKER_TABLE", "LONG_DEFAULTS"]

BROKER_TABLE: Final = """\
add.partitions.to.txn.retry.backoff.max.ms int 100
add.partitions.to.txn.retry.backoff.ms int 20
advertised.listeners list
alter.config.policy.class.name class
alter.log.dirs.replication.quota.window.num int 11
alter.log.dirs.replication.quota.window.size.seconds int 1
authorizer.class.name string ""
auto.create.topics.enable boolean true
auto.leader.rebalance.enable boolean true
background.threads int* 10
broker.heartbeat.interval.ms int 2000
broker.id int -1
broker.rack string
broker.session.timeout.ms int 9000
client.quota.callback.class class
compression.gzip.level int* -1
compression.lz4.level int* 9
compression.type string* producer
compression.zstd.level int* 3
config.providers list* ""
connection.failed.authentication.delay.ms int 100
connections.max.idle.ms long 600000
connections.max.reauth.ms long 0
controlled.shutdown.enable boolean true
controller.listener.names list
controller.quorum.append.linger.ms int 25
controller.quorum.auto.join.enable boolean false
controller.quorum.bootstrap.servers list ""
controller.quorum.election.backoff.max.ms int 1000
controller.quorum.election.timeout.ms int 1000
controller.quorum.fetch.max.bytes int 1048576
controller.quorum.fetch.snapshot.max.bytes int 1048576
controller.quorum.fetch.timeout.ms int 2000
controller.quorum.request.timeout.ms int 2000
controller.quorum.retry.backoff.ms int 20
controller.quorum.voters list ""
controller.quota.window.num int 11
controller.quota.window.size.seconds int 1
controller.socket.timeout.ms int 30000
cordoned.log.dirs list* ""
create.topic.policy.class.name class
default.replication.factor int 1
delegation.token.expiry.check.interval.ms long 3600000
delegation.token.expiry.time.ms long 86400000
delegation.token.max.lifetime.ms long 604800000
delegation.token.secret.key password
delete.records.purgatory.purge.interval.requests int 1
delete.topic.enable boolean true
early.start.listeners list
errors.deadletterqueue.auto.create.topics.enable boolean* false
errors.deadletterqueue.topic.name.prefix string* dlq.
fetch.max.bytes int 57671680
fetch.purgatory.purge.interval.requests int 1000
follower.fetch.last.tiered.offset.enable boolean* false
group.consumer.assignment.interval.ms int* 1000
group.consumer.assignors list uniform,range
group.consumer.heartbeat.interval.ms int 5000
group.consumer.max.assignment.interval.ms int 15000
group.consumer.max.heartbeat.interval.ms int 15000
group.consumer.max.session.timeout.ms int 60000
group.consumer.max.size int 2147483647
group.consumer.migration.policy string bidirectional
group.consumer.min.assignment.interval.ms int 0
group.consumer.min.heartbeat.interval.ms int 5000
group.consumer.min.session.timeout.ms int 45000
group.consumer.session.timeout.ms int 45000
group.coordinator.append.linger.ms int -1
group.coordinator.background.threads int 2
group.coordinator.cached.buffer.max.bytes int* 1048588
group.coordinator.rebalance.protocols list classic,consumer,streams
group.coordinator.threads int 4
group.initial.rebalance.delay.ms int 3000
group.max.session.timeout.ms int 1800000
group.max.size int 2147483647
group.min.session.timeout.ms int 6000
group.share.assignment.interval.ms int* 1000
group.share.assignors list simple
group.share.delivery.count.limit int 5
group.share.heartbeat.interval.ms int 5000
group.share.max.assignment.interval.ms int 15000
group.share.max.delivery.count.limit int 10
group.share.max.heartbeat.interval.ms int 15000
group.share.max.partition.max.record.locks int 4000
group.share.max.record.lock.duration.ms int 60000
group.share.max.session.timeout.ms int 60000
group.share.max.share.sessions int 2000
group.share.max.size int 200
group.share.min.assignment.interval.ms int 0
group.share.min.delivery.count.limit int 2
group.share.min.heartbeat.interval.ms int 5000
group.share.min.partition.max.record.locks int 100
group.share.min.record.lock.duration.ms int 15000
group.share.min.session.timeout.ms int 45000
group.share.partition.max.record.locks int 2000
group.share.record.lock.duration.ms int 30000
group.share.session.timeout.ms int 45000
group.streams.assignment.interval.ms int* 1000
group.streams.assignors list sticky
group.streams.heartbeat.interval.ms int 5000
group.streams.initial.rebalance.delay.ms int 3000
group.streams.max.assignment.interval.ms int 15000
group.streams.max.heartbeat.interval.ms int 15000
group.streams.max.session.timeout.ms int 60000
group.streams.max.size int 2147483647
group.streams.max.standby.replicas int 2
group.streams.min.assignment.interval.ms int 0
group.streams.min.heartbeat.interval.ms int 5000
group.streams.min.session.timeout.ms int 45000
group.streams.num.standby.replicas int 0
group.streams.rack.aware.assignment.tags list ""
group.streams.session.timeout.ms int 45000
group.streams.topology.description.plugin.class class
initial.broker.registration.timeout.ms int 60000
inter.broker.listener.name string
kafka.metrics.polling.interval.secs int 10
kafka.metrics.reporters list ""
leader.imbalance.check.interval.seconds long 300
listeners list* PLAINTEXT://:9092
log.cleaner.backoff.ms long* 15000
log.cleaner.dedupe.buffer.size long* 134217728
log.cleaner.delete.retention.ms long* 86400000
log.cleaner.enable boolean true
log.cleaner.io.buffer.load.factor double* 0.9
log.cleaner.io.buffer.size int* 524288
log.cleaner.io.max.bytes.per.second double* 1.7976931348623157E308
log.cleaner.max.compaction.lag.ms long* 9223372036854775807
log.cleaner.min.cleanable.ratio double* 0.5
log.cleaner.min.compaction.lag.ms long* 0
log.cleaner.threads int* 1
log.cleanup.policy list* delete
log.dir list /tmp/kafka-logs
log.dir.failure.timeout.ms long 30000
log.dirs list
log.flush.interval.messages long* 9223372036854775807
log.flush.interval.ms long*
log.flush.offset.checkpoint.interval.ms int 60000
log.flush.scheduler.interval.ms long 9223372036854775807
log.flush.start.offset.checkpoint.interval.ms int 60000
log.index.interval.bytes int* 4096
log.index.size.max.bytes int* 10485760
log.local.retention.bytes long* -2
log.local.retention.ms long* -2
log.message.timestamp.after.max.ms long* 3600000
log.message.timestamp.before.max.ms long* 9223372036854775807
log.message.timestamp.type string* CreateTime
log.preallocate boolean* false
log.remote.copy.lag.bytes long* -1
log.remote.copy.lag.ms long* 0
log.retention.bytes long* -1
log.retention.check.interval.ms long 300000
log.retention.hours int 168
log.retention.minutes int
log.retention.ms long*
log.roll.hours int 168
log.roll.jitter.hours int 0
log.roll.jitter.ms long*
log.roll.ms long*
log.segment.bytes int* 1073741824
log.segment.delete.delay.ms long* 60000
max.connection.creation.rate int* 2147483647
max.connections int* 2147483647
max.connections.per.ip int* 2147483647
max.connections.per.ip.overrides string* ""
max.decompressed.message.bytes int* 2147483639
max.incremental.fetch.session.cache.slots int 1000
max.request.partition.size.limit int 2000
message.max.bytes int* 1048588
metadata.log.dir string
metadata.log.max.record.bytes.between.snapshots long 20971520
metadata.log.max.snapshot.interval.ms long 3600000
metadata.log.segment.bytes int 1073741824
metadata.log.segment.ms long 604800000
metadata.max.idle.interval.ms int 500
metadata.max.retention.bytes long 104857600
metadata.max.retention.ms long 604800000
metric.reporters list* org.apache.kafka.common.metrics.JmxReporter
metrics.num.samples int 2
metrics.recording.level string INFO
metrics.sample.window.ms long 30000
min.insync.replicas int* 1
node.id int
num.io.threads int* 8
num.network.threads int* 3
num.partitions int 1
num.recovery.threads.per.data.dir int* 2
num.replica.alter.log.dirs.threads int
num.replica.fetchers int* 1
offset.metadata.max.bytes int 4096
offsets.commit.timeout.ms int 5000
offsets.load.buffer.size int 5242880
offsets.retention.check.interval.ms long 600000
offsets.retention.minutes int 10080
offsets.topic.compression.codec int 0
offsets.topic.num.partitions int 50
offsets.topic.replication.factor short 3
offsets.topic.segment.bytes int 104857600
process.roles list
producer.id.expiration.ms int* 86400000
producer.purgatory.purge.interval.requests int 1000
queued.max.request.bytes long -1
queued.max.requests int 500
quota.window.num int 11
quota.window.size.seconds int 1
remote.fetch.max.wait.ms int* 500
remote.list.offsets.request.timeout.ms long* 30000
remote.log.index.file.cache.total.size.bytes long* 1073741824
remote.log.manager.copier.thread.pool.size int* 10
remote.log.manager.copy.max.bytes.per.second long* 9223372036854775807
remote.log.manager.copy.quota.window.num int 11
remote.log.manager.copy.quota.window.size.seconds int 1
remote.log.manager.expiration.thread.pool.size int* 10
remote.log.manager.fetch.max.bytes.per.second long* 9223372036854775807
remote.log.manager.fetch.quota.window.num int 11
remote.log.manager.fetch.quota.window.size.seconds int 1
remote.log.manager.follower.thread.pool.size int* 2
remote.log.manager.task.interval.ms long 30000
remote.log.manager.thread.pool.size int 2
remote.log.metadata.custom.metadata.max.bytes int 128
remote.log.metadata.manager.class.path string
remote.log.metadata.manager.impl.prefix string rlmm.config.
remote.log.metadata.manager.listener.name string
remote.log.reader.max.pending.tasks int 100
remote.log.reader.threads int* 10
remote.log.storage.manager.class.name string
remote.log.storage.manager.class.path string
remote.log.storage.manager.impl.prefix string rsm.config.
remote.log.storage.system.enable boolean false
replica.fetch.backoff.ms int 1000
replica.fetch.max.bytes int 1048576
replica.fetch.min.bytes int 1
replica.fetch.response.max.bytes int 10485760
replica.fetch.wait.max.ms int 500
replica.high.watermark.checkpoint.interval.ms long 5000
replica.lag.time.max.ms long 30000
replica.selector.class string
replica.socket.receive.buffer.bytes int 65536
replica.socket.timeout.ms int 30000
replication.quota.window.num int 11
replication.quota.window.size.seconds int 1
request.timeout.ms int 30000
sasl.client.callback.handler.class class
sasl.enabled.mechanisms list* GSSAPI
sasl.jaas.config password*
sasl.kerberos.kinit.cmd string* /usr/bin/kinit
sasl.kerberos.min.time.before.relogin long* 60000
sasl.kerberos.principal.to.local.rules list* DEFAULT
sasl.kerberos.service.name string*
sasl.kerberos.ticket.renew.jitter double* 0.05
sasl.kerberos.ticket.renew.window.factor double* 0.8
sasl.login.callback.handler.class class
sasl.login.class class
sasl.login.connect.timeout.ms int
sasl.login.read.timeout.ms int
sasl.login.refresh.buffer.seconds short* 300
sasl.login.refresh.min.period.seconds short* 60
sasl.login.refresh.window.factor double* 0.8
sasl.login.refresh.window.jitter double* 0.05
sasl.login.retry.backoff.max.ms long 10000
sasl.login.retry.backoff.ms long 100
sasl.mechanism.controller.protocol string GSSAPI
sasl.mechanism.inter.broker.protocol string* GSSAPI
sasl.oauthbearer.allow.unverified.audience boolean false
sasl.oauthbearer.allow.unverified.issuer boolean false
sasl.oauthbearer.assertion.algorithm string RS256
sasl.oauthbearer.assertion.claim.aud string
sasl.oauthbearer.assertion.claim.exp.seconds int 300
sasl.oauthbearer.assertion.claim.iss string
sasl.oauthbearer.assertion.claim.jti.include boolean false
sasl.oauthbearer.assertion.claim.nbf.seconds int 60
sasl.oauthbearer.assertion.claim.sub string
sasl.oauthbearer.assertion.file string
sasl.oauthbearer.assertion.private.key.file string
sasl.oauthbearer.assertion.private.key.passphrase password
sasl.oauthbearer.assertion.template.file string
sasl.oauthbearer.client.credentials.client.id string
sasl.oauthbearer.client.credentials.client.secret password
sasl.oauthbearer.clock.skew.seconds int 30
sasl.oauthbearer.expected.audience list ""
sasl.oauthbearer.expected.issuer string
sasl.oauthbearer.jwks.endpoint.refresh.ms long 3600000
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms long 10000
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms long 100
sasl.oauthbearer.jwks.endpoint.url string
sasl.oauthbearer.scope string
sasl.oauthbearer.scope.claim.name string scope
sasl.oauthbearer.sub.claim.name string sub
sasl.oauthbearer.token.endpoint.url string
sasl.server.callback.handler.class class
sasl.server.max.receive.size int 524288
security.inter.broker.protocol string PLAINTEXT
security.providers string
share.coordinator.append.linger.ms int -1
share.coordinator.cached.buffer.max.bytes int* 1048588
share.coordinator.load.buffer.size int 5242880
share.coordinator.snapshot.update.records.per.snapshot int 500
share.coordinator.state.topic.compression.codec int 0
share.coordinator.state.topic.min.isr short 2
share.coordinator.state.topic.num.partitions int 50
share.coordinator.state.topic.replication.factor short 3
share.coordinator.state.topic.segment.bytes int 104857600
share.coordinator.threads int 1
share.coordinator.write.timeout.ms int 5000
share.fetch.purgatory.purge.interval.requests int 1000
socket.connection.setup.timeout.max.ms long 30000
socket.connection.setup.timeout.ms long 10000
socket.listen.backlog.size int 50
socket.receive.buffer.bytes int 102400
socket.request.max.bytes int 104857600
socket.send.buffer.bytes int 102400
ssl.allow.dn.changes boolean false
ssl.allow.san.changes boolean false
ssl.cipher.suites list* ""
ssl.client.auth string* none
ssl.enabled.protocols list* TLSv1.2,TLSv1.3
ssl.endpoint.identification.algorithm string* https
ssl.engine.factory.class class*
ssl.key.password password*
ssl.keymanager.algorithm string* SunX509
ssl.keystore.certificate.chain password*
ssl.keystore.key password*
ssl.keystore.location string*
ssl.keystore.password password*
ssl.keystore.type string* JKS
ssl.principal.mapping.rules string DEFAULT
ssl.protocol string* TLSv1.3
ssl.provider string*
ssl.secure.random.implementation string*
ssl.trustmanager.algorithm string* PKIX
ssl.truststore.certificates password*
ssl.truststore.location string*
ssl.truststore.password password*
ssl.truststore.type string* JKS
telemetry.max.bytes int 1048576
transaction.abort.timed.out.transaction.cleanup.interval.ms int 10000
transaction.max.timeout.ms int 900000
transaction.partition.verification.enable boolean* true
transaction.remove.expired.transaction.cleanup.interval.ms int 3600000
transaction.state.log.load.buffer.size int 5242880
transaction.state.log.min.isr int 2
transaction.state.log.num.partitions int 50
transaction.state.log.replication.factor short 3
transaction.state.log.segment.bytes int 104857600
transaction.two.phase.commit.enable boolean false
transactional.id.expiration.ms int 604800000
unclean.leader.election.enable boolean* false
"""

_KAFKA: Final = "org.apache.kafka"

LONG_DEFAULTS: Final = {
    "listener.security.protocol.map string*": (
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT"
    ),
    "principal.builder.class class*": (
        f"{_KAFKA}.common.security.authenticator.DefaultKafkaPrincipalBuilder"
    ),
    "remote.log.metadata.manager.class.name string": (
        f"{_KAFKA}.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager"
    ),
    "sasl.oauthbearer.jwt.retriever.class class": (
        f"{_KAFKA}.common.security.oauthbearer.DefaultJwtRetriever"
    ),
    "sasl.oauthbearer.jwt.validator.class class": (
        f"{_KAFKA}.common.security.oauthbearer.DefaultJwtValidator"
    ),
}
"""By "name type", what does not fit into a line of the table."""

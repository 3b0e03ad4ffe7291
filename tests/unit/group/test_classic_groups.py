"""Groups of classic members with random events: invariants, and recovery once the events end.
The embedded broker coordinates."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from aiokafka_lite.errors import for_code
from aiokafka_lite.group.classic.machine import ClassicState
from aiokafka_lite.group.membership import RebalanceProtocol
from aiokafka_lite.protocol.api_keys import ApiKey
from tests.unit.group.classic_drive import COOPERATIVE, EAGER, DrivenGroup, Driver

MOST = 5  # members at a time
REBALANCE_TIMEOUT = 20.0

APIS = [ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP]
CODES = [-1, 14, 15, 16, 22, 25, 27, 30, 81]

which = st.integers(0, MOST - 1)
pauses = st.sampled_from([0.0, 0.1, 2.0, 7.0, 15.0, 40.0])


class ClassicGroups(RuleBasedStateMachine):
    @initialize(protocols=st.sampled_from([EAGER, COOPERATIVE]))
    def begin(self, protocols: frozenset[RebalanceProtocol]) -> None:
        self.protocols = protocols
        self.group = DrivenGroup(partitions=5)
        self.events = 0
        for _ in range(3):
            self.join(static=False, seconds=7.0)

    def pick(self, number: int) -> Driver | None:
        """A running member."""
        self.events += 1
        alive = self.group.alive
        return alive[number % len(alive)] if alive else None

    @precondition(lambda self: len(self.group.alive) < MOST)
    @rule(static=st.booleans(), seconds=pauses)
    def join(self, static: bool, seconds: float) -> None:
        self.events += 1
        name = f"static-{len(self.group.drivers)}" if static else None
        Driver(
            self.group,
            protocols=self.protocols,
            rebalance_timeout=REBALANCE_TIMEOUT,
            group_instance_id=name,
        )
        self.group.run(seconds)

    @rule(number=which, stay=st.sampled_from([None, True, False]))
    def close(self, number: int, stay: bool | None) -> None:
        if (driver := self.pick(number)) is not None:
            driver.close(stay)

    @rule(number=which, seconds=pauses)
    def kill_and_restart(self, number: int, seconds: float) -> None:
        """Static members rejoin with their instance id."""
        if (driver := self.pick(number)) is not None:
            driver.alive = False
            self.group.run(seconds)
            Driver(
                self.group,
                protocols=self.protocols,
                rebalance_timeout=REBALANCE_TIMEOUT,
                group_instance_id=driver.instance_id,
            )

    @rule(number=which, seconds=pauses)
    def stop_process(self, number: int, seconds: float) -> None:
        if (driver := self.pick(number)) is not None:
            driver.alive = False
            self.group.run(seconds)
            driver.alive = True
            driver.pump()

    @rule(number=which, seconds=pauses)
    def cut(self, number: int, seconds: float) -> None:
        """No request arrives; responses are lost."""
        if (driver := self.pick(number)) is not None:
            driver.connected = False
            self.group.run(seconds)
            driver.connected = True

    @rule(number=which, seconds=pauses)
    def unsubscribe(self, number: int, seconds: float) -> None:
        if (driver := self.pick(number)) is not None:
            driver.machine.leave("unsubscribed", self.group.now)
            self.group.run(seconds)
            if not driver.closing:
                driver.machine.on_subscription({"t"}, self.group.now)

    @rule(number=which, seconds=st.sampled_from([0.0, 0.3, 2.0, 6.0]))
    def listener(self, number: int, seconds: float) -> None:
        """Two in a row are still well within the rebalance timeout. After that the coordinator
        continues without the member, which detects it only with its next heartbeat."""
        if (driver := self.pick(number)) is not None:
            driver.listener_time = seconds

    @rule(number=which, waiting=st.booleans())
    def poll(self, number: int, waiting: bool) -> None:
        if (driver := self.pick(number)) is not None:
            driver.machine.on_poll(self.group.now, waiting=waiting)

    @rule(number=which)
    def enforce_rebalance(self, number: int) -> None:
        if (driver := self.pick(number)) is not None:
            driver.machine.request_rejoin("test", self.group.now)

    @rule(number=which, code=st.sampled_from([15, 16, 22, 25, 27]))
    def commit_refused(self, number: int, code: int) -> None:
        if (driver := self.pick(number)) is not None:
            driver.machine.on_commit_error(for_code(code)(""), self.group.now)

    @rule(api=st.sampled_from(APIS), code=st.sampled_from(CODES))
    def fault(self, api: ApiKey, code: int) -> None:
        self.events += 1
        self.group.broker.fail_next(api, code)

    @rule()
    def move_coordinator(self) -> None:
        self.events += 1
        self.group.move_coordinator()

    @precondition(lambda self: self.group.layouts["t"].partitions < 8)
    @rule()
    def add_partition(self) -> None:
        self.events += 1
        self.group.add_partitions("t", self.group.layouts["t"].partitions + 1)

    @rule(seconds=pauses)
    def pass_time(self, seconds: float) -> None:
        self.group.run(seconds)
        for driver in self.group.alive:  # Java's next poll
            driver.machine.retry(self.group.now)

    def teardown(self) -> None:
        if not hasattr(self, "group"):
            return
        group = self.group
        group.broker.control.faults.clear()
        group.settle()  # a pending response may be an error that only a poll retries
        for driver in group.alive:
            driver.listener_time = min(driver.listener_time, 5.0)
            driver.machine.on_poll(group.now, waiting=True)
            driver.machine.retry(group.now)
            if driver.machine.state is ClassicState.FENCED:
                driver.close()
        self.join(static=False, seconds=0.0)
        group.run_until_stable(300)
        counts = [driver.machine.counters.rebalances for driver in group.drivers]
        group.run(120)
        assert counts == [driver.machine.counters.rebalances for driver in group.drivers]
        assert max(counts) <= 6 * self.events
        for driver in group.alive:
            driver.close()
        group.run(30)
        assert all(driver.machine.closed for driver in group.drivers if driver.alive)


TestClassicGroups = ClassicGroups.TestCase
TestClassicGroups.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)


# Found by Hypothesis. In both, an error that stops the member until the application's next poll was
# still in flight when the faults ended.


def test_a_group_recovers_from_a_refused_join_that_a_stopped_process_reads_last() -> None:
    state = ClassicGroups()
    state.begin(protocols=COOPERATIVE)
    state.add_partition()
    state.add_partition()
    state.close(number=0, stay=None)
    state.unsubscribe(number=1, seconds=0.0)
    state.move_coordinator()
    state.fault(api=ApiKey.JOIN_GROUP, code=-1)
    state.stop_process(number=0, seconds=0.0)
    state.teardown()


def test_a_group_recovers_from_an_unauthorized_join_after_static_members_were_replaced() -> None:
    state = ClassicGroups()
    state.begin(protocols=COOPERATIVE)
    state.pass_time(seconds=0.0)
    state.stop_process(number=0, seconds=0.0)
    state.unsubscribe(number=0, seconds=0.0)
    state.add_partition()
    state.add_partition()
    state.close(number=0, stay=True)
    state.join(seconds=0.1, static=True)
    state.kill_and_restart(number=1, seconds=40.0)
    state.unsubscribe(number=1, seconds=0.0)
    state.close(number=1, stay=None)
    state.kill_and_restart(number=1, seconds=2.0)
    state.close(number=3, stay=None)
    state.enforce_rebalance(number=1)
    state.unsubscribe(number=3, seconds=40.0)
    state.close(number=4, stay=None)
    state.kill_and_restart(number=1, seconds=7.0)
    state.listener(number=3, seconds=0.3)
    state.enforce_rebalance(number=1)
    state.move_coordinator()
    state.fault(api=ApiKey.JOIN_GROUP, code=30)
    state.poll(number=2, waiting=True)
    state.listener(number=4, seconds=0.3)
    state.add_partition()
    state.stop_process(number=1, seconds=40.0)
    state.teardown()

"""Membership in the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup."""

"""Membership in share groups (KIP-932), sans-IO."""

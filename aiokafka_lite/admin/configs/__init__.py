"""Configurations, client quotas and client metrics subscriptions."""

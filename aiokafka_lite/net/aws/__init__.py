"""AWS credentials and request signatures, for the mechanism AWS_MSK_IAM and for `oauth.MskIam`."""

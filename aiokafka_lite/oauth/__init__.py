"""Token providers for SASL/OAUTHBEARER: identity providers, clouds, and files. Not in aiokafka.

Pass one as `sasl_oauth_token_provider` together with `sasl_mechanism="OAUTHBEARER"`. One provider
may serve any number of clients; each token is fetched once, and renewed before it expires.

- `ClientCredentials`: an OAuth 2.0 client with a secret or an assertion (KIP-768, KIP-1258).
- `JwtBearer`: the JWT bearer grant (KIP-1139).
- `TokenFile`: a file that another process keeps current.
- `MskIam`: AWS MSK with IAM access control.
- `AzureManagedIdentity`, `AzureWorkloadIdentity`: Azure Event Hubs.
- `GoogleCloud`: Google Cloud's Managed Service for Apache Kafka.
"""

from aiokafka_lite.net.aws.aws_credentials import AwsCredentials
from aiokafka_lite.oauth.clouds import AzureManagedIdentity, AzureWorkloadIdentity, GoogleCloud
from aiokafka_lite.oauth.grants import ClientCredentials, JwtBearer
from aiokafka_lite.oauth.msk_iam import MskIam
from aiokafka_lite.oauth.token_file import TokenFile
from aiokafka_lite.oauth.token_http import HttpRequest, HttpResponse
from aiokafka_lite.oauth.token_source import Token, TokenSource

__all__ = [
    "AwsCredentials",
    "AzureManagedIdentity",
    "AzureWorkloadIdentity",
    "ClientCredentials",
    "GoogleCloud",
    "HttpRequest",
    "HttpResponse",
    "JwtBearer",
    "MskIam",
    "Token",
    "TokenFile",
    "TokenSource",
]

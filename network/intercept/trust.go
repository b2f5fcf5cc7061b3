package intercept

// SystemBundle has the certificates that a room trusts. It is read on Alpine and Debian by OpenSSL, GnuTLS (wget, apt), Go, git and curl.
// Alpine's /etc/ssl/cert.pem is a link to it.
const SystemBundle = "/etc/ssl/certs/ca-certificates.crt"

// Environment returns the variables for programs that do not read the system's certificates. The
// bundle has the system's certificates and the authority's, since most variables replace what a
// program trusts. Java reads a store that distributions make of the system's.
func Environment(bundle string) []string {
	return []string{
		"SSL_CERT_FILE=" + bundle,                    // OpenSSL, Go, Ruby, Rust, uv; Python's ssl of other builds
		"REQUESTS_CA_BUNDLE=" + bundle,               // Python's requests, which brings certifi
		"PIP_CERT=" + bundle,                         // pip, which brings certifi
		"CURL_CA_BUNDLE=" + bundle,                   // curl of other builds (conda, static)
		"GIT_SSL_CAINFO=" + bundle,                   // git of other builds
		"NODE_EXTRA_CA_CERTS=" + bundle,              // Node, npm and yarn; adds to what Node brings
		"DENO_CERT=" + bundle,                        // Deno; adds
		"CARGO_HTTP_CAINFO=" + bundle,                // Cargo of rustup
		"AWS_CA_BUNDLE=" + bundle,                    // the AWS command and boto3, which bring certifi
		"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH=" + bundle, // gRPC for C++, Python, Ruby and PHP
	}
}

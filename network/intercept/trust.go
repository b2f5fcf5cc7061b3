package intercept

import (
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"time"
	"unicode/utf16"
)

// Where a room's distribution keeps its trusted certificates. Each has to end with the authority's.
const (
	// SystemBundle is read on Alpine and Debian by OpenSSL, GnuTLS (wget, apt), Go, git and curl.
	// Alpine's /etc/ssl/cert.pem is a link to it.
	SystemBundle = "/etc/ssl/certs/ca-certificates.crt"
	// LocalCertificate is a file for the authority alone. From it, update-ca-certificates of both
	// distributions makes SystemBundle again, also when a package is installed.
	LocalCertificate = "/usr/local/share/ca-certificates/osaurus-sandbox.crt"
	// JavaStore is what Debian's and Alpine's Java read, unless it is named (see Environment).
	JavaStore = "/etc/ssl/certs/java/cacerts"

	javaPassword = "changeit" // known to everyone; Java does not read a store without one
)

// Environment returns the variables for programs that do not read the system's certificates. The
// bundle has the system's certificates and the authority's, since most variables replace what a
// program trusts. The Java store is made by JavaTrustStore.
func Environment(bundle, javaStore string) []string {
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
		// Java prints a line about this at each start. It is needed only for a Java that does not
		// read JavaStore.
		fmt.Sprintf("JAVA_TOOL_OPTIONS=-Djavax.net.ssl.trustStore=%s -Djavax.net.ssl.trustStorePassword=%s", javaStore, javaPassword),
	}
}

// JavaTrustStore returns the certificates of a PEM bundle as a store in Java's own format (JKS), which
// all versions of Java read.
func JavaTrustStore(bundle []byte) []byte {
	var entries bytes.Buffer
	count := uint32(0)
	number := func(n any) { _ = binary.Write(&entries, binary.BigEndian, n) } // a buffer does not fail
	text := func(s string) {
		number(uint16(len(s)))
		entries.WriteString(s)
	}
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != certBlock {
			continue
		}
		number(uint32(2)) // a trusted certificate
		text(fmt.Sprintf("certificate-%d", count))
		number(time.Now().UnixMilli())
		text("X.509")
		number(uint32(len(block.Bytes)))
		entries.Write(block.Bytes)
		count++
	}
	store := binary.BigEndian.AppendUint32(nil, 0xfeedfeed)
	store = binary.BigEndian.AppendUint32(store, 2) // version
	store = binary.BigEndian.AppendUint32(store, count)
	store = append(store, entries.Bytes()...)
	sum := sha1.New() // the format's; it protects nothing
	for _, unit := range utf16.Encode([]rune(javaPassword)) {
		sum.Write(binary.BigEndian.AppendUint16(nil, unit))
	}
	sum.Write([]byte("Mighty Aphrodite"))
	sum.Write(store)
	return sum.Sum(store)
}

package local

import (
	"strings"
)

// seatbeltNetwork allows the network. Names are resolved by mDNSResponder, over its socket, and
// the system's TLS clients ask trustd for roots.
const seatbeltNetwork = `(allow network-outbound (remote ip) (literal "/private/var/run/mDNSResponder"))
(allow network-inbound (local ip))
(allow network-bind (local ip))
(allow system-socket)
(allow mach-lookup
  (global-name "com.apple.trustd") (global-name "com.apple.trustd.agent") (global-name "com.apple.SecurityServer")
  (global-name "com.apple.SystemConfiguration.configd") (global-name "com.apple.SystemConfiguration.DNSConfiguration"))
`

// profile returns the Seatbelt profile. Paths are parameters, so they need no quoting. They are
// real paths, such as /private/tmp.
func profile(c spec) string {
	var p strings.Builder
	p.WriteString(`(version 1)
(deny default)
(import "system.sb")
(allow process-fork)
(allow process-exec*)
(allow process-info* (target same-sandbox))
(allow signal (target same-sandbox))
(allow sysctl-read)
(allow file-read-metadata)
(allow file-read*
  (literal "/") (literal (param "SELF"))
  (subpath "/bin") (subpath "/sbin") (subpath "/usr") (subpath "/opt") (subpath "/System") (subpath "/Library/Developer")
  (subpath "/Library/Apple") (subpath "/private/etc/ssl") (subpath "/private/var/db/timezone") (subpath "/private/var/select")
  (literal "/private/etc/passwd") (literal "/private/etc/hosts") (literal "/private/etc/resolv.conf") (literal "/private/etc/services")
  (subpath "/dev/fd") (literal "/dev/null") (literal "/dev/zero") (literal "/dev/random") (literal "/dev/urandom")
  (subpath (param "WORKSPACE")) (subpath (param "SCRATCH")))
(allow file-write-data (literal "/dev/null") (literal "/dev/zero"))
(allow file-write* (subpath (param "SCRATCH")))
`)
	if !c.ReadOnly {
		p.WriteString("(allow file-write* (subpath (param \"WORKSPACE\")))\n")
	}
	if c.Network {
		p.WriteString(seatbeltNetwork)
	}
	return p.String()
}

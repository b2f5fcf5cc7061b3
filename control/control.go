// Package control is the API of a sandbox on this computer: the server that the daemon runs, and the client that the command line and others use.
package control

import (
	"net/http"
	"time"

	"connectrpc.com/connect"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/plugins"
)

// The versions of the API that this program speaks. A change that the other
// end can ignore does not need a new version.
const (
	VersionMin = 1
	VersionMax = 1
)

const (
	// maxMessage bounds a request. The largest useful one is a command with all its
	// arguments.
	maxMessage = 1 << 20
	// maxRecipe bounds requests with a plugin's recipe, in the base64 of JSON.
	maxRecipe = plugins.MaxRecipe/3*4 + maxMessage
	// maxAnswer bounds an answer of the daemon. A list of plugins or tools has
	// some kilobytes for each.
	maxAnswer = 64 << 20
	// maxHeaders bounds the headers of a request.
	maxHeaders = 16 << 10
	// chunk is the most bytes of a stream in one message: a pipe's capacity.
	chunk = 64 << 10
	// headerTimeout is how long a client may take to send a request's header.
	headerTimeout = 10 * time.Second
	// maxStreams bounds the calls of one connection. An app has a few watchers and as
	// many commands as the guest runs at once.
	maxStreams = 256
)

// HTTP/2 buffers for slow readers. The window of a connection must exceed those of all its
// calls, or a command that does not read its input would block the other calls.
const (
	streamWindow = 256 << 10
	connWindow   = maxStreams * streamWindow
)

// http2 returns the settings that both ends use.
func http2() *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxConcurrentStreams:          maxStreams,
		MaxReceiveBufferPerStream:     streamWindow,
		MaxReceiveBufferPerConnection: connWindow,
	}
}

// clientHeader names the client, for the audit.
const clientHeader = "Osaurus-Client"

func handlerOptions() connect.HandlerOption {
	return connect.WithHandlerOptions(
		connect.WithReadMaxBytes(maxMessage), connect.WithCompression("gzip", nil, nil))
}

func clientOptions() connect.ClientOption {
	return connect.WithClientOptions(
		connect.WithReadMaxBytes(maxAnswer), connect.WithAcceptCompression("gzip", nil, nil))
}

// withRecipes returns the option of services whose requests contain recipes.
func withRecipes() connect.Option { return connect.WithReadMaxBytes(maxRecipe) }

// protocols returns HTTP/1.1, for any program, and HTTP/2 without TLS, for streams in both
// directions.
func protocols() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetUnencryptedHTTP2(true)
	return p
}

// negotiate returns the highest version that both ends speak.
func negotiate(clientMin, clientMax uint32, program string) (uint32, error) {
	const op = "agree on an API version"
	v := min(clientMax, VersionMax)
	if v >= VersionMin && v >= clientMin {
		return v, nil
	}
	advice := "The daemon that runs is older than the client. End it with `osaurus-sandbox down --daemon`; the next command starts the new one."
	if v < VersionMin {
		advice = "Update the client: it is too old for this daemon."
	}
	return 0, fault.Newf(fault.Rejected, op, "", "the client speaks %d–%d, the daemon (%s) %d–%d", clientMin, clientMax, program, VersionMin, VersionMax).Advise(advice)
}

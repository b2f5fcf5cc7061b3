package protocol

import (
	"net/http"
	"time"

	"connectrpc.com/connect"
)

// The limits of the protocol. Beyond one that bounds a message, the message is
// refused; beyond one that bounds a flow, the writer waits.
const (
	// MaxMessage bounds one message, so that neither end can make the other
	// hold more. The largest honest one is a Start.
	MaxMessage = 1 << 20
	// MaxArgBytes bounds the arguments and environment of a command together.
	// It is well below Linux's own 2 MiB and leaves room in a message.
	MaxArgBytes = 512 << 10
	// MaxArgs bounds their number: each costs memory beyond its bytes.
	MaxArgs = 16 << 10
	// MaxArg is Linux's own bound for one of them (MAX_ARG_STRLEN), less the NUL.
	MaxArg = 128<<10 - 1
	// MaxPath is Linux's PATH_MAX, less the NUL.
	MaxPath = 4095
	// MaxHostname is Linux's __NEW_UTS_LEN.
	MaxHostname = 64
	// MaxBase is more than a digest's text, which a base is known by.
	MaxBase = 128
	// MaxTag is the length of a VirtioFS device's tag.
	MaxTag = 36
	// MaxMounts is more shares than a machine has slots for.
	MaxMounts = 32
	// MaxDNS is how many name servers libc's resolver looks at.
	MaxDNS = 3
	// MaxEntropy is more than the guest's pool can use.
	MaxEntropy = 512
	// MaxCommands is how many commands run at once. One more is refused. It
	// bounds threads, pipes and buffers in the guest; of these, one agent cannot have all.
	MaxCommands = 128
	// Chunk is the most bytes of a stream in one message: a pipe's capacity.
	Chunk = 64 << 10
	// MaxHeaders bounds the headers of a request or response.
	MaxHeaders = 16 << 10
	// MaxList clips a list of an Info.
	MaxList = 64
	// MaxTimeout is the longest time limit of a command.
	MaxTimeout = 30 * 24 * time.Hour
	// MaxGrace bounds how long a command may outlive its SIGTERM.
	MaxGrace = 5 * time.Minute
	// DefaultGrace is used where a grace is not given.
	DefaultGrace = 5 * time.Second
)

// What HTTP/2 may hold for a slow reader. Commands with input share a connection, so its
// window must be larger than all of theirs, or a few commands that do not read
// their input would block every other call.
const (
	streamWindow = 256 << 10
	connWindow   = (MaxCommands + spareStreams) * streamWindow
	spareStreams = 32 // calls beside commands
	frameSize    = 128 << 10
)

// HTTP2 returns the settings that both ends use.
func HTTP2() *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxConcurrentStreams:          MaxCommands + spareStreams,
		MaxReadFrameSize:              frameSize,
		MaxReceiveBufferPerStream:     streamWindow,
		MaxReceiveBufferPerConnection: connWindow,
	}
}

// Protocols is HTTP/2 without TLS and nothing else.
func Protocols() *http.Protocols {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	return p
}

// ClientOptions and HandlerOptions bound messages and switch compression off:
// it would cost more than the copy it saves.
func ClientOptions() connect.ClientOption {
	return connect.WithClientOptions(
		connect.WithAcceptCompression("gzip", nil, nil),
		connect.WithReadMaxBytes(MaxMessage), connect.WithSendMaxBytes(MaxMessage))
}

func HandlerOptions() connect.HandlerOption {
	return connect.WithHandlerOptions(
		connect.WithCompression("gzip", nil, nil),
		connect.WithReadMaxBytes(MaxMessage), connect.WithSendMaxBytes(MaxMessage))
}

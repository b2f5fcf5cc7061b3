package protocol

import (
	"net/http"
	"time"

	"connectrpc.com/connect"
)

// The limits of the protocol. A message beyond its limit is refused; a flow beyond its limit
// blocks the writer.
const (
	// MaxMessage bounds the memory that one message can take at the other end. The arguments and the environment
	// of a command must fit into it; Linux allows 2 MiB, and 128 KiB for each.
	MaxMessage = 1 << 20
	// MaxPath is Linux's PATH_MAX, less the NUL.
	MaxPath = 4095
	// MaxCommands bounds the commands that run at once, and with them threads, pipes and buffers.
	// One agent cannot take all.
	MaxCommands = 128
	// MaxConnections bounds the connections to ports of rooms at once, each with buffers. Browsers
	// open six to each address. One agent cannot take all.
	MaxConnections = 128
	// Chunk is the most bytes of a stream in one message: a pipe's capacity.
	Chunk = 64 << 10
	// MaxHeaders bounds the headers of a request or response.
	MaxHeaders = 16 << 10
	// MaxList bounds each list of an Info.
	MaxList = 64
	// MaxSignal is the last signal of Linux.
	MaxSignal = 64
	// DefaultGrace is the time between SIGTERM and SIGKILL when no grace is given.
	DefaultGrace = 5 * time.Second
)

// Flow control of HTTP/2. Commands with input and connections to ports share a connection, so its
// window must exceed the sum of theirs; otherwise those that ignore their input would block all calls.
const (
	streamWindow = 256 << 10
	connWindow   = maxStreams * streamWindow
	maxStreams   = MaxCommands + MaxConnections + spareStreams
	spareStreams = 32 // other calls
	frameSize    = 128 << 10
)

// HTTP2 returns the settings that both ends use.
func HTTP2() *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxConcurrentStreams:          maxStreams,
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

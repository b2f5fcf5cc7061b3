package hello

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

const (
	// refuseTimeout bounds how long a refusal takes to be sent.
	refuseTimeout = 5 * time.Second
	// drainTimeout and maxDrain bound how long and how much a client may send on. To close before
	// it stops would reset the connection, and the client may then lose the refusal.
	drainTimeout = time.Second
	maxDrain     = 1 << 20
	// maxPhrase is the longest text in a status line, which is all that apt and wget print.
	maxPhrase = 160
	// maxText is the longest text for SSH, whose packets have 32768 bytes.
	maxText = 4096
)

// Refuse tells a client why its connection is refused, as far as its protocol has a way to do so,
// and closes the connection. The text is plain, and its first line is understood alone.
func Refuse(c net.Conn, kind Kind, text string) {
	defer c.Close()
	var answer []byte
	switch kind {
	case HTTP, Invalid: // most of what is invalid is HTTP
		body := strings.TrimRight(text, "\n") + "\n"
		answer = fmt.Appendf(nil, "HTTP/1.1 403 %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\n"+
			"Cache-Control: no-store\r\nConnection: close\r\n\r\n%s", phrase(text), len(body), body)
	case TLS:
		answer = []byte{21, 3, 3, 0, 2, 2, 49} // an alert: fatal, access_denied
	case SSH:
		answer = disconnect(text)
	default:
		return
	}
	_ = c.SetDeadline(time.Now().Add(refuseTimeout))
	if _, err := c.Write(answer); err != nil {
		return
	}
	_ = CloseWrite(c)
	_ = c.SetReadDeadline(time.Now().Add(drainTimeout))
	_, _ = io.Copy(io.Discard, io.LimitReader(c, maxDrain))
}

// CloseWrite ends one direction of a connection, if that is possible.
func CloseWrite(c any) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// disconnect returns what an SSH server says to end a connection before its keys are exchanged
// (RFC 4253, sections 6 and 11.1). Clients print the text.
func disconnect(text string) []byte {
	const hostNotAllowed, padding = 1, 8
	text = text[:min(len(text), maxText)]
	payload := []byte{1} // SSH_MSG_DISCONNECT
	payload = binary.BigEndian.AppendUint32(payload, hostNotAllowed)
	payload = binary.BigEndian.AppendUint32(payload, uint32(len(text)))
	payload = append(payload, text...)
	payload = append(payload, 0, 0, 0, 0) // no language
	pad := 2*padding - (5+len(payload))%padding
	packet := binary.BigEndian.AppendUint32([]byte("SSH-2.0-Gateway\r\n"), uint32(1+len(payload)+pad))
	packet = append(append(packet, byte(pad)), payload...)
	return append(packet, make([]byte, pad)...)
}

// phrase returns the first line of a text as the reason phrase of a status line.
func phrase(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	line = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, line)
	return line[:min(len(line), maxPhrase)]
}

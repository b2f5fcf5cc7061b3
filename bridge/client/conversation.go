package client

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"time"

	"osaurus-sandbox/bridge/wire"
	"osaurus-sandbox/internal/fault"
)

// conversation is a connection to the bridge, which answers one request after another.
type conversation struct {
	conn net.Conn
	r    *bufio.Reader
	used time.Time
}

// write returns a request's bytes, all of them, so that they go out at once.
func (c *Client) write(method, path string, body any) ([]byte, error) {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return nil, fault.New(fault.InvalidArgs, "write the request", path, err)
		}
		if len(text) > wire.MaxBody {
			return nil, fault.Newf(fault.InvalidArgs, "write the request", path, "it is larger than %d MiB", wire.MaxBody>>20)
		}
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: localhost\r\n", method, path)
	for _, h := range [][2]string{
		{wire.HeaderAuthorization, "Bearer " + c.options.Token},
		{wire.HeaderPlugin, c.options.Plugin},
	} {
		if h[1] == "" {
			continue
		}
		if !headerValue(h[1]) {
			return nil, fault.Newf(fault.InvalidArgs, "write the request", h[0], "it has characters that no header may have")
		}
		fmt.Fprintf(&b, "%s: %s\r\n", h[0], h[1])
	}
	if text != nil {
		fmt.Fprintf(&b, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(text))
	}
	b.WriteString("\r\n")
	b.Write(text)
	return b.Bytes(), nil
}

// headerName reports whether a text is the name of a header as the bridge has them.
func headerName(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
}

// headerValue reports whether a text can stand in a header as it is.
func headerValue(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

package mcp

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const cancelled = "notifications/cancelled"

// quiet is a transport that answers nothing to what the client has cancelled, as
// the protocol wants: clients take such an answer for a mistake. The SDK does
// answer. Over HTTP it has to: the answer ends the request.
type quiet struct{ mcp.Transport }

func (q quiet) Connect(ctx context.Context) (mcp.Connection, error) {
	conn, err := q.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &quietConn{Connection: conn, asked: map[jsonrpc.ID]bool{}}, nil
}

type quietConn struct {
	mcp.Connection
	mu    sync.Mutex
	asked map[jsonrpc.ID]bool // what is not answered yet, and whether it is cancelled
}

func (c *quietConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := c.Connection.Read(ctx)
	request, ok := m.(*jsonrpc.Request)
	if err != nil || !ok {
		return m, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case request.IsCall():
		c.asked[request.ID] = false
	case request.Method == cancelled:
		var p struct{ RequestID any }
		if json.Unmarshal(request.Params, &p) != nil {
			break // the SDK says what is wrong with it
		}
		if id, err := jsonrpc.MakeID(p.RequestID); err == nil {
			if _, waits := c.asked[id]; waits {
				c.asked[id] = true
			}
		}
	}
	return m, nil
}

func (c *quietConn) Write(ctx context.Context, m jsonrpc.Message) error {
	if response, ok := m.(*jsonrpc.Response); ok {
		c.mu.Lock()
		unwanted := c.asked[response.ID]
		delete(c.asked, response.ID)
		c.mu.Unlock()
		if unwanted {
			return nil
		}
	}
	return c.Connection.Write(ctx, m)
}

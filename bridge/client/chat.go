package client

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"strings"

	"osaurus-sandbox/bridge/wire"
	"osaurus-sandbox/internal/fault"
)

// maxEvent bounds one event of a stream: a part of an answer is some words.
const maxEvent = 1 << 20

// Chat asks a model and returns its answer. With tell, the parts of the answer
// are told as they come; an error of tell ends it.
func (c *Client) Chat(ctx context.Context, chat wire.Chat, tell func(part string) error) (string, error) {
	if chat.Stream = tell != nil; !chat.Stream {
		var a wire.Answer
		err := c.ask(ctx, "POST", wire.PathChat, chat, &a)
		return a.Content, err
	}
	x, err := c.begin(ctx, "POST", wire.PathChat, chat)
	if err != nil {
		return "", err
	}
	defer x.end()
	var answer strings.Builder
	events := bufio.NewScanner(x.body)
	events.Buffer(nil, maxEvent)
	for events.Scan() {
		data, ok := bytes.CutPrefix(events.Bytes(), []byte("data:"))
		if !ok {
			continue // what parts events, or keeps the connection awake
		}
		if data = bytes.TrimSpace(data); string(data) == wire.Done {
			_, err := io.Copy(io.Discard, x.body)
			x.over = err == nil
			return answer.String(), nil
		}
		var part struct {
			wire.Answer
			wire.Failure
		}
		if err := json.Unmarshal(data, &part); err != nil {
			return "", fault.New(fault.Execution, "read the bridge's answer", wire.PathChat, err)
		}
		if part.Error != "" {
			return "", x.told(part.Failure)
		}
		if answer.Len()+len(part.Content) > maxAnswer {
			return "", fault.Newf(fault.Execution, "read the bridge's answer", wire.PathChat, "it does not end")
		}
		answer.WriteString(part.Content)
		if err := tell(part.Content); err != nil {
			return "", err
		}
	}
	return "", x.failed(cmp.Or(events.Err(), io.ErrUnexpectedEOF))
}

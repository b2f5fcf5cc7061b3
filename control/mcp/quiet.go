package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// sayCancelled has a call that was cancelled fail as the SDK has those fail that were
// before they began, whatever came of it.
func sayCancelled(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
		result, err := next(ctx, method, r)
		if ctx.Err() != nil {
			return nil, context.Canceled
		}
		return result, err
	}
}

// withoutCancelled is a line, which may be a batch, without the answers to what was cancelled.
// A client on standard streams is answered nothing to that, as the protocol wants: clients take
// such an answer for a mistake. The SDK does answer, and has to where requests come in a batch:
// their answers go out when all are there. Over HTTP the answer ends the request, and stays.
func withoutCancelled(line []byte) []byte {
	if !bytes.Contains(line, []byte(context.Canceled.Error())) {
		return line // nearly all, and some are long
	}
	var batch []json.RawMessage
	if json.Unmarshal(line, &batch) != nil {
		if answersCancelled(line) {
			return nil
		}
		return line
	}
	batch = slices.DeleteFunc(batch, answersCancelled)
	if len(batch) == 0 {
		return nil
	}
	rest, err := json.Marshal(batch)
	if err != nil {
		return line // cannot be: it was just read
	}
	return append(rest, '\n')
}

// answersCancelled reports whether a message is what sayCancelled makes: an error of no
// code, of which there are no others with that text.
func answersCancelled(m json.RawMessage) bool {
	var answer struct {
		Error *struct {
			Code    int
			Message string
		}
	}
	return json.Unmarshal(m, &answer) == nil && answer.Error != nil && answer.Error.Code == 0 && answer.Error.Message == context.Canceled.Error()
}

package mcp

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"osaurus-sandbox/config"
	"osaurus-sandbox/tools"
)

const (
	// maxShown is how long a text in a result may be. Tools answer less unless they are
	// asked to. Clients drop results of twice that length, and models lose their context.
	maxShown = 64 << 10
	// maxKept is how many whole results are kept: the newest.
	maxKept = 64

	keptScheme = "osaurus-sandbox://results/"
	jsonType   = "application/json"
)

// results keeps the whole results of calls that were answered with a shorter one.
type results struct {
	mu   sync.Mutex
	kept []kept
}

type kept struct {
	agent config.AgentID
	uri   string
	tool  string
	text  Envelope
}

// keep keeps a result and returns a link to it. The link cannot be guessed, and only the
// agent can open it.
func (s *results) keep(agent config.AgentID, tool string, text Envelope) *mcp.ResourceLink {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := kept{agent, keptScheme + rand.Text(), tool, text}
	s.kept = append(s.kept, k)
	s.kept = slices.Clone(s.kept[max(0, len(s.kept)-maxKept):])
	return k.link()
}

func (k kept) link() *mcp.ResourceLink {
	size := int64(len(k.text))
	return &mcp.ResourceLink{URI: k.uri, Name: "result of " + k.tool, MIMEType: jsonType, Size: &size, Description: fmt.Sprintf("The whole result. It is kept until %d newer ones are.", maxKept)}
}

// of returns the results of an agent, oldest first.
func (s *results) of(agent config.AgentID) []kept {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.kept), func(k kept) bool { return k.agent != agent })
}

// listKept lists the agent's results.
func (s *session) listKept(ctx context.Context, method string, r mcp.Request, next mcp.MethodHandler) (mcp.Result, error) {
	result, err := next(ctx, method, r)
	if err != nil {
		return nil, err
	}
	answer := result.(*mcp.ListResourcesResult)
	for _, k := range s.results.of(s.agent.ID) {
		link := k.link()
		answer.Resources = append(answer.Resources, &mcp.Resource{URI: link.URI, Name: link.Name, MIMEType: link.MIMEType, Size: *link.Size, Description: link.Description})
	}
	return answer, nil
}

// read returns a result.
func (s *session) read(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	for _, k := range s.results.of(s.agent.ID) {
		if k.uri == r.Params.URI {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: k.uri, MIMEType: jsonType, Text: string(k.text)}}}, nil
		}
	}
	return nil, mcp.ResourceNotFoundError(r.Params.URI)
}

// shorten cuts texts of an envelope that are too long, in their middle.
func shorten(e Envelope) (short Envelope, cut bool) {
	if len(e) <= maxShown {
		return e, false
	}
	var full struct {
		Tool     tools.Name
		Result   any
		Warnings []string
	}
	dec := json.NewDecoder(strings.NewReader(string(e)))
	dec.UseNumber()
	if err := dec.Decode(&full); err != nil {
		return e, false
	}
	if full.Result = shortened(full.Result, &cut); !cut {
		return e, false
	}
	return Envelope(tools.Envelope{Tool: full.Tool, Result: full.Result, Warnings: full.Warnings}.Text()), true
}

// shortened returns a value with texts of about maxShown at most, and sets cut if one was
// longer.
func shortened(v any, cut *bool) any {
	switch v := v.(type) {
	case string:
		if len(v) <= maxShown {
			return v
		}
		*cut = true
		// Characters that are cut in half go.
		head, tail := strings.ToValidUTF8(v[:maxShown*2/5], ""), strings.ToValidUTF8(v[len(v)-maxShown*3/5:], "")
		return fmt.Sprintf("%s\n[… %d bytes left out: the link beside this result leads to all of it …]\n%s", head, len(v)-len(head)-len(tail), tail)
	case []any:
		for i := range v {
			v[i] = shortened(v[i], cut)
		}
	case map[string]any:
		for key := range v {
			v[key] = shortened(v[key], cut)
		}
	}
	return v
}

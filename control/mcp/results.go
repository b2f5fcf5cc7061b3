package mcp

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"osaurus-sandbox/config"
	"osaurus-sandbox/tools"
)

const (
	// maxShown is how long a text in a result may be that is answered at once: more than
	// any tool answers unless it is asked to. Clients give up results that are
	// twice as long, and models forget what was before them.
	maxShown = 64 << 10
	// maxKept is how many whole results of an agent are kept: the newest. None is
	// larger than a message of the control API.
	maxKept = 16
	// maxAgents bounds for how many agents results are kept; for one more, those of
	// the agent are given up that has had none for the longest.
	maxAgents = 64

	keptScheme = "osaurus-sandbox://results/"
	jsonType   = "application/json"
)

// results is where whole results are kept whose calls were answered with less.
type results struct {
	mu   sync.Mutex
	kept map[config.AgentID][]kept
	last int // number of the newest
}

type kept struct {
	number int
	uri    string
	tool   string
	text   Envelope
}

func newResults() *results { return &results{kept: map[config.AgentID][]kept{}} }

// keep keeps a result, and returns a link to it. The link cannot be guessed, and
// opens nothing for another agent.
func (s *results) keep(agent config.AgentID, tool string, text Envelope) *mcp.ResourceLink {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, there := s.kept[agent]; !there && len(s.kept) >= maxAgents {
		delete(s.kept, s.longestWithout())
	}
	s.last++
	k := kept{s.last, keptScheme + rand.Text(), tool, text}
	list := append(s.kept[agent], k)
	s.kept[agent] = slices.Clone(list[max(0, len(list)-maxKept):])
	return k.link()
}

// longestWithout is the agent whose newest result is the oldest. The mutex is held.
func (s *results) longestWithout() (agent config.AgentID) {
	oldest := s.last + 1
	for other, list := range s.kept {
		if newest := list[len(list)-1].number; newest < oldest {
			agent, oldest = other, newest
		}
	}
	return agent
}

func (k kept) link() *mcp.ResourceLink {
	size := int64(len(k.text))
	return &mcp.ResourceLink{URI: k.uri, Name: "result of " + k.tool, MIMEType: jsonType, Size: &size, Description: fmt.Sprintf("The whole result. It is kept until %d newer ones are.", maxKept)}
}

// of are the results of an agent, the oldest first.
func (s *results) of(agent config.AgentID) []kept {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept[agent]
}

// listKept answers which results are kept.
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

// read answers one.
func (s *session) read(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	for _, k := range s.results.of(s.agent.ID) {
		if k.uri == r.Params.URI {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: k.uri, MIMEType: jsonType, Text: string(k.text)}}}, nil
		}
	}
	return nil, mcp.ResourceNotFoundError(r.Params.URI)
}

// shorten cuts what is too long in the middle of the texts of an envelope.
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
	if full.Result, cut = shortened(full.Result); !cut {
		return e, false
	}
	return Envelope(tools.Envelope{Tool: full.Tool, Result: full.Result, Warnings: full.Warnings}.Text()), true
}

// shortened is a value in which no text is longer than maxShown.
func shortened(v any) (short any, cut bool) {
	switch v := v.(type) {
	case string:
		if len(v) <= maxShown {
			return v, false
		}
		head, tail := whole(v[:maxShown*2/5]), whole(v[len(v)-maxShown*3/5:])
		return fmt.Sprintf("%s\n[… %d bytes left out: the link beside this result leads to all of it …]\n%s", head, len(v)-len(head)-len(tail), tail), true
	case []any:
		for i := range v {
			var this bool
			v[i], this = shortened(v[i])
			cut = cut || this
		}
		return v, cut
	case map[string]any:
		for key := range v {
			var this bool
			v[key], this = shortened(v[key])
			cut = cut || this
		}
		return v, cut
	}
	return v, false
}

// whole is a part of a text without the halves of characters at its ends.
func whole(part string) string {
	for part != "" && !utf8.RuneStart(part[0]) {
		part = part[1:]
	}
	for i := 0; i < utf8.UTFMax && part != ""; i++ {
		if r, size := utf8.DecodeLastRuneInString(part); r != utf8.RuneError || size != 1 {
			break
		}
		part = part[:len(part)-1]
	}
	return part
}

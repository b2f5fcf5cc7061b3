package control

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/agents"
)

const (
	// maxPorts bounds the ports of one Forward: a person who needs more of an agent's has
	// another call. The audit's entry names all.
	maxPorts = 64
	// maxConnections bounds the connections of one agent at a time, whoever forwards its
	// ports, and maxOfAll those of all agents: more are refused. Each is a command, of which a
	// guest takes 100, and some more of agents that have few (guest/service/slots.go). A browser
	// has six for each address.
	maxConnections, maxOfAll = 64, 80
	// fewConnections is how many an agent has whatever the others have: half of the commands
	// that a guest spares for it, so that it can work, too.
	fewConnections = 2
	// maxSilence is how long at least a room may neither take nor answer anything of who has sent
	// all, or more than it takes: pages that were closed leave such connections to servers that
	// do not look, and each has a slot. A server that works for somebody has done so by then.
	maxSilence = 5 * time.Minute
	// farewell is how long who is not done with what was answered has until the end of the
	// connection comes to them: then they are not waited for.
	farewell = 2 * time.Second
)

// portService is the part of the API that is about what listens in rooms.
type portService struct{ service }

// Forward has ports of an agent's be reached for as long as it lasts.
func (s portService) Forward(ctx context.Context, r *controlpb.ForwardPortsRequest, stream *connect.ServerStream[controlpb.ForwardPortsResponse]) error {
	ports, err := portsOf(r.Ports)
	if err != nil {
		return err
	}
	return s.onRecord(ctx, r.Agent, "forward", strings.Trim(fmt.Sprint(ports), "[]"), func(agent agents.Agent) error {
		lease, agent, err := s.Agents.Room(string(agent.ID)).Enter(ctx)
		if err != nil {
			return err
		}
		defer lease.Release()
		id, forget := s.forwards.add(ctx, agent.ID, ports)
		defer forget()
		if err := stream.Send(&controlpb.ForwardPortsResponse{Id: id}); err != nil {
			return err
		}
		for {
			changed := s.Agents.Changed()
			if !s.Agents.Has(agent.ID) {
				return fault.Newf(fault.NotFound, "forward ports", string(agent.Name), "the agent was deleted").Advise("Forward those of another one.")
			}
			select {
			case <-changed:
			case <-ctx.Done(): // who forwards has left
				return nil
			case <-s.closing:
				return nil
			}
		}
	})
}

// portsOf are ports as a request carries them.
func portsOf(list []uint32) ([]config.Port, error) {
	const op = "forward ports"
	if len(list) == 0 || len(list) > maxPorts {
		return nil, fault.Newf(fault.InvalidArgs, op, "", "%d ports", len(list)).Advise(fmt.Sprintf("Name between 1 and %d.", maxPorts))
	}
	ports := make([]config.Port, len(list))
	for i, n := range list {
		var err error
		if ports[i], err = config.ParsePort(fmt.Sprint(n)); err != nil {
			return nil, err
		}
	}
	return ports, nil
}

type connectStream = connect.BidiStream[controlpb.ConnectPortRequest, controlpb.ConnectPortResponse]

// Connect is one connection to a port that is forwarded.
func (s portService) Connect(ctx context.Context, stream *connectStream) error {
	first, err := stream.Receive()
	to := first.GetTo()
	if err != nil || to == nil {
		return fault.New(fault.InvalidArgs, "connect to port", "", errors.Join(errors.New("the first message does not say to what"), err)).Advise("Begin with a message that has to.")
	}
	f, release, err := s.forwards.enter(to)
	if err != nil {
		return err
	}
	defer release()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(f.lasts, func() { cancel(errForwardedNoMore) })()
	var moved traffic
	in, fed := io.Pipe()
	go moved.feed(func() ([]byte, error) {
		m, err := stream.Receive()
		return m.GetData(), err
	}, fed)
	var watch sync.WaitGroup // ends before what the call writes to is gone
	watch.Go(func() {
		moved.hangUp(ctx, func() { cancel(errSilent) })
		if cause := context.Cause(ctx); cause == errForwardedNoMore || cause == errSilent {
			_ = answering(ctx).SetWriteDeadline(time.Now().Add(farewell)) // a call that has ended needs none
		}
	})
	err = s.Agents.Connect(ctx, string(f.agent), config.Port(to.Port), in, moved.answers(func(b []byte) error {
		return stream.Send(&controlpb.ConnectPortResponse{Data: b})
	}))
	cause := context.Cause(ctx)
	_ = in.Close() // releases whoever waits for the room to read
	cancel(nil)
	watch.Wait()
	switch {
	case err != nil && cause == errForwardedNoMore:
		return notForwarded(to)
	case err != nil && cause == errSilent:
		return fault.New(fault.Timeout, "connect to port", fmt.Sprint(to.Port), errSilent).Advise("Connect anew.")
	}
	return err
}

// Why a connection is ended from this side.
var (
	errForwardedNoMore = errors.New("it is forwarded no more")
	errSilent          = fmt.Errorf("the server in the room has neither read nor answered for %d minutes", int(maxSilence.Minutes()))
)

type answeringKey struct{}

// withAnswering has calls bound for how long they wait for who reads what they answer: the
// transport holds an answer until there is room for it, whatever the call's context says.
func withAnswering(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), answeringKey{}, http.NewResponseController(w))))
	})
}

// answering controls what a call writes, until it returns.
func answering(ctx context.Context) *http.ResponseController {
	c, _ := ctx.Value(answeringKey{}).(*http.ResponseController)
	return c
}

// traffic is what goes over a connection. Who changes the others counts first, and who looks
// at them looks at the count last.
type traffic struct {
	count    atomic.Int64 // of what has begun or ended to be carried, in both directions
	untaken  atomic.Bool  // the room has yet to take something, or all was sent
	unheeded atomic.Bool  // who has connected has yet to take something
}

// feed carries what is sent to a room, until its end: who goes away without a word ends the
// call, too.
func (t *traffic) feed(receive func() ([]byte, error), room *io.PipeWriter) {
	for {
		data, err := receive()
		t.count.Add(1)
		t.untaken.Store(true)
		if err == nil {
			_, err = room.Write(data)
		}
		if err != nil {
			_ = room.Close()
			return
		}
		t.count.Add(1)
		t.untaken.Store(false)
	}
}

// answers carries what a room answers.
func (t *traffic) answers(send func([]byte) error) io.Writer {
	return writer(func(b []byte) (int, error) {
		t.count.Add(1)
		t.unheeded.Store(true)
		err := send(b)
		t.count.Add(1)
		t.unheeded.Store(false)
		return len(b), err
	})
}

// hangUp ends a connection whose room has taken and answered nothing for long, though there
// is something to take, or nothing more will come. It returns when the connection has ended.
func (t *traffic) hangUp(ctx context.Context, end func()) {
	for before := int64(-1); ; {
		owed := t.untaken.Load() && !t.unheeded.Load()
		now := t.count.Load()
		if owed && now == before {
			end()
			return
		}
		before = now
		select {
		case <-time.After(maxSilence):
		case <-ctx.Done():
			return
		}
	}
}

// notForwarded is the error of a connection to what is not forwarded, or no more.
func notForwarded(to *controlpb.ConnectTo) error {
	return fault.Newf(fault.Rejected, "connect to port", fmt.Sprint(to.Port), "nobody forwards it").Advise("Call Forward, and connect while that call lasts.")
}

// forward is what somebody forwards, for as long as it lasts.
type forward struct {
	agent config.AgentID
	ports []config.Port
	lasts context.Context
}

// forwards are what is forwarded now, by ids that nobody guesses: they are on record.
type forwards struct {
	mu    sync.Mutex
	all   map[string]forward
	open  map[config.AgentID]int // connections
	total int
}

func (f *forwards) add(ctx context.Context, agent config.AgentID, ports []config.Port) (id string, forget func()) {
	ctx, end := context.WithCancel(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all == nil {
		f.all, f.open = map[string]forward{}, map[config.AgentID]int{}
	}
	id = rand.Text()
	f.all[id] = forward{agent, ports, ctx}
	return id, func() {
		end()
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.all, id)
	}
}

// enter finds what a connection is part of, which must be released once it has ended.
func (f *forwards) enter(to *controlpb.ConnectTo) (one forward, release func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	one, ok := f.all[to.Forward]
	if !ok || !slices.ContainsFunc(one.ports, func(p config.Port) bool { return uint32(p) == to.Port }) {
		return one, nil, notForwarded(to)
	}
	if own := f.open[one.agent]; own >= maxConnections || f.total >= maxOfAll && own >= fewConnections {
		return one, nil, fault.Newf(fault.Rejected, "connect to port", fmt.Sprint(to.Port), "%d connections to ports of this agent are open (at most %d), and %d to those of all agents (at most %d)", own, maxConnections, f.total, maxOfAll).
			Advise("Close pages that load for ever, or end another forward.")
	}
	f.open[one.agent]++
	f.total++
	return one, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.total--
		if f.open[one.agent]--; f.open[one.agent] == 0 {
			delete(f.open, one.agent)
		}
	}, nil
}

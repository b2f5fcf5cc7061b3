package control

import (
	"context"
	"testing"

	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
)

// A closed client ends its calls, here and in the daemon, and makes no others.
func TestClose(t *testing.T) {
	begun, ended := make(chan bool), make(chan bool)
	client, _ := daemonOf(t, func(ctx context.Context) error {
		close(begun)
		<-ctx.Done()
		close(ended)
		return ctx.Err()
	})
	list := func() error {
		_, err := client.Agents.List(t.Context(), &controlpb.ListAgentsRequest{})
		return err
	}
	failed := make(chan error)
	go func() { failed <- list() }()
	<-begun
	client.Close()
	if err := <-failed; fault.KindOf(err) != fault.Unavailable {
		t.Errorf("the call: %v", err)
	}
	<-ended
	if err := list(); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("a call of a closed client: %v", err)
	}
}

package local

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
)

// TestStartedTooLate: a command that starts just as its caller gives up counts as not started:
// nobody could be told of its end any more.
func TestStartedTooLate(t *testing.T) {
	reports, end, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reports.Close()
	defer end.Close()
	ctx, giveUp := context.WithCancel(t.Context())
	giveUp()
	said := json.NewDecoder(strings.NewReader(`{"started":true}`))
	if err := (&command{reports: reports}).started(ctx, said); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want that it was given up", err)
	}
}

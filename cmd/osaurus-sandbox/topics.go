package main

import (
	"context"

	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/plain"
)

// printTopics prints what programs of agents have told.
func printTopics(ctx context.Context, c console, client *control.Client, request *controlpb.ReadTopicsRequest, asJSON bool) error {
	for e, err := range control.Messages(client.Topics.Read(ctx, request)) {
		switch {
		case err != nil:
		case asJSON:
			err = printLine(c.out, e)
		case e.GapTo != 0:
			_, err = writef(c.out, "        some events from %d to %d are not kept any more\n", e.GapFrom, e.GapTo)
		default:
			_, err = writef(c.out, "%6d  %s  %-20s %s  (%s)\n", e.Seq, when(e.Time), e.Topic, plain.Clip(e.Payload), e.Source)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

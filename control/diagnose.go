package control

import (
	"context"

	"connectrpc.com/connect"

	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/supervisor/doctor"
)

// Diagnose answers each check as it ends.
func (s service) Diagnose(ctx context.Context, r *controlpb.DiagnoseRequest, stream *connect.ServerStream[controlpb.DiagnoseResponse]) error {
	var target doctor.Target
	if r.NatTarget != "" {
		var err error
		if target, err = doctor.ParseTarget(r.NatTarget); err != nil {
			return err
		}
	}
	return s.audited(ctx, note{action: "diagnose", subject: target.String(), strict: true}, func() error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		for result := range doctor.Diagnose(ctx, s.Sandbox, s.Agents, target) {
			if err := stream.Send(&controlpb.DiagnoseResponse{
				Name: result.Name, Passed: result.Passed(), Did: result.Did, Found: shown(result.Found()), Advice: shown(result.Advice()), Took: span(result.Took),
			}); err != nil {
				return err
			}
		}
		return nil
	})
}

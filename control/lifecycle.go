package control

import (
	"context"

	"connectrpc.com/connect"

	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/printable"
	"osaurus-sandbox/supervisor/doctor"
	"osaurus-sandbox/supervisor/machine"
)

// Status returns the status, from memory.
func (s service) Status(context.Context, *controlpb.StatusRequest) (*controlpb.StatusResponse, error) {
	return &controlpb.StatusResponse{Status: s.status()}, nil
}

func (s service) status() *controlpb.Status { return statusProto(s.Sandbox.Status()) }

// WatchStatus sends the status, now and after each change.
func (s service) WatchStatus(ctx context.Context, _ *controlpb.WatchStatusRequest, stream *connect.ServerStream[controlpb.StatusResponse]) error {
	return s.watchStatus(ctx, func(status *controlpb.Status) error {
		return stream.Send(&controlpb.StatusResponse{Status: status})
	})
}

// watchStatus sends the status, now and after each change, until the context ends.
func (s service) watchStatus(ctx context.Context, send func(*controlpb.Status) error) error {
	status := s.Sandbox.Status()
	for {
		if err := send(statusProto(status)); err != nil {
			return err
		}
		var err error
		if status, err = s.Sandbox.Next(ctx, status.Revision); err != nil {
			return err
		}
	}
}

// command runs an operation of the machine and audits it.
func (s service) command(ctx context.Context, n note, do func(context.Context, machine.Cause) error) (*controlpb.Status, error) {
	err := s.audited(ctx, n, func() error { return do(ctx, callerOf(ctx).cause()) })
	return s.status(), err
}

// Up starts the guest.
func (s service) Up(ctx context.Context, _ *controlpb.UpRequest) (*controlpb.UpResponse, error) {
	status, err := s.command(ctx, note{action: "machine.up"}, s.Sandbox.Start)
	return &controlpb.UpResponse{Status: status}, err
}

// Down powers the guest off.
func (s service) Down(ctx context.Context, _ *controlpb.DownRequest) (*controlpb.DownResponse, error) {
	status, err := s.command(ctx, note{action: "machine.down"}, s.Sandbox.Stop)
	return &controlpb.DownResponse{Status: status}, err
}

// Restart is Down and Up.
func (s service) Restart(ctx context.Context, _ *controlpb.RestartRequest) (*controlpb.RestartResponse, error) {
	status, err := s.command(ctx, note{action: "machine.restart"}, s.Sandbox.Restart)
	return &controlpb.RestartResponse{Status: status}, err
}

// Reset replaces the data disk by an empty one.
func (s service) Reset(ctx context.Context, _ *controlpb.ResetRequest) (*controlpb.ResetResponse, error) {
	status, err := s.command(ctx, note{action: "machine.reset", strict: true}, s.Sandbox.Reset)
	return &controlpb.ResetResponse{Status: status}, err
}

// Remove deletes disk and images.
func (s service) Remove(ctx context.Context, _ *controlpb.RemoveRequest) (*controlpb.RemoveResponse, error) {
	status, err := s.command(ctx, note{action: "machine.remove", strict: true}, s.Sandbox.Remove)
	return &controlpb.RemoveResponse{Status: status}, err
}

// Provision starts the guest and sends the status on the way.
func (s service) Provision(ctx context.Context, _ *controlpb.ProvisionRequest, stream *connect.ServerStream[controlpb.ProvisionResponse]) error {
	send := func(status *controlpb.Status) error { return stream.Send(&controlpb.ProvisionResponse{Status: status}) }
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	result := make(chan error, 1)
	go func() {
		_, err := s.command(ctx, note{action: "machine.provision"}, s.Sandbox.Provision)
		result <- err
		cancel()
	}()
	if err := s.watchStatus(ctx, send); ctx.Err() == nil {
		return err
	}
	if err := <-result; err != nil {
		return err
	}
	return send(s.status())
}

// Diagnose sends each check as it ends.
func (s service) Diagnose(ctx context.Context, r *controlpb.DiagnoseRequest, stream *connect.ServerStream[controlpb.DiagnoseResponse]) error {
	target, err := doctor.ParseTarget(r.NatTarget)
	if err != nil {
		return err
	}
	return s.audited(ctx, note{action: "diagnose", subject: string(target), strict: true}, func() error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		for result := range doctor.Diagnose(ctx, s.Sandbox, s.Agents, target) {
			if err := stream.Send(&controlpb.DiagnoseResponse{
				Name: result.Name, Passed: result.Passed(), Did: result.Did, Found: printable.Text(result.Found()), Advice: printable.Text(result.Advice()), Took: span(result.Took),
			}); err != nil {
				return err
			}
		}
		return nil
	})
}

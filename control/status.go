package control

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/printable"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/supervisor/machine"
)

// statusProto converts a status.
func statusProto(s machine.Status) *controlpb.Status {
	p := &controlpb.Status{
		State: string(s.State), Since: moment(s.Since), Cause: string(s.Cause), Operation: string(s.Operation),
		Accelerator: s.Accelerator, Started: moment(s.StartedAt), Answered: moment(s.AnsweredAt),
		Commands: uint32(s.Commands), IdleStop: moment(s.IdleStop), Progress: progressProto(s.Progress), Guest: guestProto(s),
	}
	if s.Reason != "" {
		p.Reason = &controlpb.Reason{Kind: string(s.Kind), Text: printable.Text(s.Reason), Advice: printable.Text(s.Advice)}
	}
	if s.Failures > 0 {
		p.Retries = &controlpb.Retries{Failures: uint32(s.Failures), NotBefore: moment(s.CoolUntil), ByHandOnly: s.NeverAgain}
	}
	if m := s.Machine; m != nil {
		p.Machine = &controlpb.Machine{
			Pack: m.Pack, PackReason: m.PackReason, Image: m.Image, Arch: string(m.Arch), Cpus: uint32(m.CPUs), Memory: uint64(m.Memory),
			Network: m.Network, MissingPackages: m.Missing, NotEnforced: m.NotEnforced,
		}
	}
	return p
}

func guestProto(s machine.Status) *controlpb.Guest {
	g := s.Guest
	if g == nil {
		return nil
	}
	return &controlpb.Guest{
		Version: g.GuestVersion, Kernel: g.Kernel, Distribution: g.OsRelease["PRETTY_NAME"], Uptime: durationpb.New(time.Duration(g.UptimeNanos)),
		MemoryTotal: g.MemoryTotal, MemoryAvailable: g.MemoryAvailable,
		Network: g.Network, NetworkTrouble: g.NetworkTrouble,
		Warnings: g.Warnings, Asked: moment(s.GuestAt),
	}
}

func progressProto(j *progress.Status) *controlpb.Progress {
	if j == nil {
		return nil
	}
	return &controlpb.Progress{Began: moment(j.Began), Notes: j.Notes, Steps: protos(j.Steps, func(s progress.Step) *controlpb.Step {
		return &controlpb.Step{
			Name: string(s.Name), Status: string(s.State), Detail: printable.Text(s.Detail),
			Done: uint64(max(s.Done, 0)), Total: uint64(max(s.Total, 0)), Rate: s.Rate, Took: span(s.Took), Left: span(s.Left),
		}
	})}
}

func moment(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func span(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

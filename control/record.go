package control

import (
	"context"
	"errors"

	"connectrpc.com/connect"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/secrets/redact"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/audit"
	"osaurus-sandbox/supervisor/events"
)

// note describes a call for the audit.
type note struct {
	action, subject string
	args            []string         // the subject, if it is a command
	detail          string           // what else is worth knowing when it begins
	agent           config.AgentName // may be empty
	// strict calls fail if they cannot be recorded: commands, and calls that delete or
	// change something. Stopping the sandbox must be possible with a full disk.
	strict bool
}

// audited runs do between an audit entry for its beginning and one for its end. It redacts
// the agent's secrets in both and in the error.
func (s service) audited(ctx context.Context, n note, do func() error) error {
	secrets := s.secretsOf(ctx, n.agent)
	if err := s.record(ctx, n, audit.Begun, n.detail, secrets); err != nil && n.strict {
		return fault.Wrap(n.action, "", err)
	}
	err := withoutSecrets(do(), secrets)
	detail := ""
	if err != nil {
		detail = err.Error()
	}
	_ = s.record(ctx, n, audit.OutcomeOf(err), detail, secrets) // the log has it
	return err
}

// onRecord is audited for an agent. It passes the agent that was recorded to do, since its
// name may belong to another one by then.
func (s service) onRecord(ctx context.Context, ref, action, subject string, do func(agents.Agent) error) error {
	agent, err := s.Agents.Get(ref)
	if err != nil {
		return err
	}
	return s.audited(ctx, note{action: action, subject: subject, agent: agent.Name, strict: true}, func() error { return do(agent) })
}

// answered is audited for a function with a result.
func answered[A any](ctx context.Context, s service, n note, do func() (A, error)) (answer A, err error) {
	err = s.audited(ctx, n, func() (err error) {
		answer, err = do()
		return err
	})
	return answer, err
}

// answeredFor is onRecord for a function with a result.
func answeredFor[A any](ctx context.Context, s service, ref, action, subject string, do func(agents.Agent) (A, error)) (answer A, err error) {
	err = s.onRecord(ctx, ref, action, subject, func(agent agents.Agent) (err error) {
		answer, err = do(agent)
		return err
	})
	return answer, err
}

// secretsOf returns what redacts an agent's secrets, nil without an agent.
func (s service) secretsOf(ctx context.Context, name config.AgentName) *redact.Live {
	if name == "" {
		return nil
	}
	agent, err := s.Agents.Get(string(name))
	if err != nil {
		return nil
	}
	return s.Agents.Redact(ctx, agent)
}

// withoutSecrets returns an error without the values of secrets.
func withoutSecrets(err error, secrets *redact.Live) error {
	clean := secrets.Scrubber()
	if err == nil || clean == nil {
		return err
	}
	text, advice := err.Error(), fault.AdviceOf(err)
	if clean.Text(text) == text && clean.Text(advice) == advice {
		return err
	}
	return fault.New(fault.KindOf(err), "", "", errors.New(clean.Text(text))).Advise(clean.Text(advice))
}

// redactedCommand returns a command for people. Secrets go before it is quoted, which would
// change them.
func redactedCommand(clean *redact.Scrubber, args []string) string {
	return commandLine(protos(args, clean.Text))
}

func (s service) record(ctx context.Context, n note, outcome audit.Outcome, detail string, secrets *redact.Live) error {
	who, clean := callerOf(ctx), secrets.Scrubber()
	subject := clean.Text(n.subject)
	if len(n.args) > 0 {
		subject = redactedCommand(clean, n.args)
	}
	_, err := s.Audit.Record(ctx, audit.Entry{
		UID: who.uid, Agent: n.agent, Client: who.client, Action: n.action, Subject: subject, Outcome: outcome, Detail: clean.Text(detail),
	})
	if err != nil {
		s.Log.Error("the audit lacks an entry", "uid", who.uid, "client", who.client, "action", n.action, "outcome", outcome, "error", err)
	}
	return err
}

// ListAudit sends the audit's entries, newest first.
func (s service) ListAudit(ctx context.Context, r *controlpb.ListAuditRequest, stream *connect.ServerStream[controlpb.ListAuditResponse]) error {
	filter := audit.Filter{Limit: int(r.Limit), Before: audit.Seq(r.Before), Since: r.Since.AsTime()}
	if r.Agent != "" {
		name, err := s.nameOf(r.Agent)
		if err != nil {
			return err
		}
		filter.Agent = name
	}
	return sendAll(stream, s.Audit.List(ctx, filter), func(e audit.Entry) *controlpb.ListAuditResponse {
		return &controlpb.ListAuditResponse{
			Seq: int64(e.Seq), Time: moment(e.Time), Uid: int64(e.UID), Agent: string(e.Agent), Client: e.Client,
			Action: e.Action, Subject: e.Subject, Outcome: string(e.Outcome), Detail: e.Detail, Hash: e.Hash.String(),
		}
	})
}

// nameOf returns the name of an agent by its name or id. The name may be that of a deleted
// agent, whose entries remain.
func (s service) nameOf(ref string) (config.AgentName, error) {
	agent, err := s.Agents.Get(ref)
	if _, notID := config.ParseAgentID(ref); err != nil && notID != nil {
		return config.NameAgent(ref)
	}
	return agent.Name, err
}

// VerifyAudit verifies the audit.
func (s service) VerifyAudit(ctx context.Context, _ *controlpb.VerifyAuditRequest) (*controlpb.VerifyAuditResponse, error) {
	proof, err := s.Audit.Verify(ctx)
	return &controlpb.VerifyAuditResponse{Records: int64(proof.Entries), Head: proof.Hash.String()}, err
}

// Events sends past events, and with follow the ones to come.
func (s service) Events(ctx context.Context, r *controlpb.EventsRequest, stream *connect.ServerStream[controlpb.EventsResponse]) error {
	return sendAll(stream, s.Backing.Events.Read(ctx, events.Seq(r.After), r.Follow), func(e events.Event) *controlpb.EventsResponse {
		return &controlpb.EventsResponse{Seq: int64(e.Seq), Time: moment(e.Time), Kind: string(e.Kind), Cause: e.Cause, Fields: e.Fields}
	})
}

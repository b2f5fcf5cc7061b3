package toolhost

import (
	"context"

	"osaurus-sandbox/config"
	"osaurus-sandbox/supervisor/artifacts"
	"osaurus-sandbox/tools"
)

// handover stores files that agents share with people.
type handover struct{ Options }

func (h handover) Draft(_ context.Context, a tools.Agent, session config.SessionID, name string) (tools.Draft, error) {
	d, err := h.Artifacts.Draft(artifacts.Owner{Agent: a.ID, Name: a.Name, Session: session}, name)
	if err != nil {
		return nil, err
	}
	return draft{d}, nil
}

type draft struct{ *artifacts.Draft }

func (d draft) Keep(ctx context.Context, description string) (tools.Artifact, error) {
	f, err := d.Draft.Keep(ctx, description, by)
	if err != nil {
		return tools.Artifact{}, err
	}
	return tools.Artifact{ID: int64(f.ID), Name: f.Name, Session: f.Session, Type: f.Type, Files: f.Files, Size: f.Size, SHA256: f.SHA256}, nil
}

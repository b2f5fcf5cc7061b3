package control

import (
	"context"
	"fmt"

	"connectrpc.com/connect"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/supervisor/artifacts"
)

// artifactService implements the service Artifacts.
type artifactService struct{ service }

func (s artifactService) proto(f artifacts.Artifact) *controlpb.Artifact {
	return &controlpb.Artifact{
		Id: int64(f.ID), Agent: string(f.AgentName), AgentId: string(f.Agent), Session: string(f.Session), Name: f.Name, Description: f.Description,
		Folder: f.Folder, ContentType: f.Type, Files: uint32(f.Files), Size: f.Size, Sha256: f.SHA256, Created: moment(f.Created), Path: s.Artifacts.Path(f),
	}
}

// List lists artifacts. Those of a deleted agent are found by its name.
func (s artifactService) List(ctx context.Context, r *controlpb.ListArtifactsRequest, stream *connect.ServerStream[controlpb.ListArtifactsResponse]) error {
	session, err := optional(r.Session, config.ParseSessionID)
	if err != nil {
		return err
	}
	filter := artifacts.Filter{Agent: r.Agent, Session: session}
	if agent, err := s.Agents.Get(r.Agent); err == nil {
		filter.Agent = string(agent.ID)
	}
	return sendAll(stream, s.Artifacts.List(ctx, filter), func(f artifacts.Artifact) *controlpb.ListArtifactsResponse {
		return &controlpb.ListArtifactsResponse{Artifact: s.proto(f)}
	})
}

// Show returns an artifact.
func (s artifactService) Show(ctx context.Context, r *controlpb.ShowArtifactRequest) (*controlpb.ShowArtifactResponse, error) {
	f, err := s.Artifacts.Get(ctx, artifacts.ID(r.Id))
	return &controlpb.ShowArtifactResponse{Artifact: s.proto(f)}, err
}

// Read sends an artifact as a tar archive.
func (s artifactService) Read(ctx context.Context, r *controlpb.ReadArtifactRequest, stream *connect.ServerStream[controlpb.Chunk]) error {
	f, err := s.Artifacts.Get(ctx, artifacts.ID(r.Id))
	if err != nil {
		return err
	}
	return s.Artifacts.Read(ctx, f, sendingChunks(stream))
}

// Delete deletes an artifact.
func (s artifactService) Delete(ctx context.Context, r *controlpb.DeleteArtifactRequest) (*controlpb.DeleteArtifactResponse, error) {
	f, err := s.Artifacts.Get(ctx, artifacts.ID(r.Id))
	if err != nil {
		return nil, err
	}
	n := note{action: "artifact.delete", subject: fmt.Sprintf("%d %s", f.ID, f.Name), agent: f.AgentName, strict: true}
	err = s.audited(ctx, n, func() error { return s.Artifacts.Delete(ctx, f.ID, callerOf(ctx).cause()) })
	return &controlpb.DeleteArtifactResponse{}, err
}

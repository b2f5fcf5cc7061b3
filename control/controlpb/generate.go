// Package controlpb is the control API's schema and the code generated from it (`make generate`; needs protoc).
package controlpb

//go:generate sh ../../scripts/protoc control.proto
//go:generate sh ../../scripts/protoc agents.proto
//go:generate sh ../../scripts/protoc agentsnapshots.proto
//go:generate sh ../../scripts/protoc agentshells.proto
//go:generate sh ../../scripts/protoc agentjobs.proto
//go:generate sh ../../scripts/protoc agentfiles.proto
//go:generate sh ../../scripts/protoc agentports.proto
//go:generate sh ../../scripts/protoc memory.proto
//go:generate sh ../../scripts/protoc tasks.proto
//go:generate sh ../../scripts/protoc topics.proto
//go:generate sh ../../scripts/protoc agentsecrets.proto
//go:generate sh ../../scripts/protoc prompts.proto
//go:generate sh ../../scripts/protoc network.proto
//go:generate sh ../../scripts/protoc plugins.proto
//go:generate sh ../../scripts/protoc tools.proto
//go:generate sh ../../scripts/protoc installs.proto
//go:generate sh ../../scripts/protoc artifacts.proto
//go:generate sh ../../scripts/protoc backups.proto
//go:generate sh ../../scripts/protoc history.proto
//go:generate sh ../../scripts/protoc agentmounts.proto

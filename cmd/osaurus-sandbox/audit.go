package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/printable"
	"osaurus-sandbox/supervisor/agents"
	"osaurus-sandbox/supervisor/audit"
	"osaurus-sandbox/supervisor/store"
)

func newAudit() *cobra.Command {
	return noun("audit", "Show the audit log, and check that it is complete",
		`  osaurus-sandbox audit list --since 24h
  osaurus-sandbox audit verify`,
		newAuditList(), newAuditVerify())
}

// withAudit opens the audit log directly. Checking it must not depend on the daemon.
func withAudit(ctx context.Context, do func(*store.DB, *audit.Log) error) error {
	home, err := config.FindHome()
	if err != nil {
		return err
	}
	db, err := store.View(ctx, home.Database())
	if err != nil {
		return err
	}
	return errors.Join(do(db, audit.New(db)), db.Close())
}

func newAuditList() *cobra.Command {
	var since, agent string
	var limit int
	return command("list", "List who did what, newest first",
		`  osaurus-sandbox audit list --limit 20
  osaurus-sandbox audit list --agent alice --since 24h --json`, func(ctx context.Context, c *call) error {
			filter := audit.Filter{Limit: limit}
			from, err := parseSince(since)
			if err != nil {
				return err
			}
			if from != nil {
				filter.Since = from.AsTime()
			}
			return withAudit(ctx, func(db *store.DB, log *audit.Log) error {
				if agent != "" {
					if filter.Agent, err = agents.NameOf(ctx, db, agent); err != nil {
						return err
					}
				}
				for e, err := range log.List(ctx, filter) {
					if err != nil {
						return err
					}
					if c.json {
						err = printJSONLine(c.out, e)
					} else {
						err = writef(c.out, "%6d  %s  uid %d  %-18s %-18s %-10s %s\n",
							e.Seq, e.Time.Local().Format(time.DateTime), e.UID, e.Client, e.Action, e.Outcome, printable.Clip(entryText(e)))
					}
					if err != nil {
						return err
					}
				}
				return nil
			})
		},
		withFlag(&since, "since", "print only newer entries: a duration (24h) or a time"),
		withFlag(&agent, "agent", "print only entries about this agent"),
		withFlag(&limit, "limit", "print at most this many entries"))
}

// entryText describes an entry: the agent, the subject and the result.
func entryText(e audit.Entry) string {
	text := strings.TrimSpace(e.Subject + " " + e.Detail)
	if e.Agent == "" {
		return text
	}
	return strings.TrimSpace(string(e.Agent) + ": " + text)
}

// auditProof is the number of entries and the hash of the last.
type auditProof struct {
	Records int64  `json:"records"`
	Head    string `json:"head"`
}

func newAuditVerify() *cobra.Command {
	return command("verify", `Check that no entry was changed or removed

Checks that the audit log has all its entries, as they were written. If not, it names the first wrong entry, and the exit code is
3. Somebody who can write the file could replace the whole log: to notice that, keep the printed hash elsewhere.`,
		`  osaurus-sandbox audit verify`, func(ctx context.Context, c *call) error {
			return withAudit(ctx, func(_ *store.DB, log *audit.Log) error {
				proof, err := log.Verify(ctx)
				return reply(c, auditProof{proof.Entries, proof.Hash.String()}, err, func(w io.Writer, p auditProof) error {
					return writef(w, "whole: %s\nlast hash: %s\n", plural(int(p.Records), "entry"), p.Head)
				})
			})
		})
}

package memory

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
)

const (
	// maxQuery is how much of a query is read, and maxAsked how many different
	// words: those of a long question. More would not find anything better.
	maxQuery = 4 << 10
	maxAsked = 32
	// maxWord is how long a word is: what is longer is a key or a digest, and is
	// known by its beginning.
	maxWord = 64
)

// ranked finds facts by words. A word counts the more the fewer of the agent's
// facts have it: SQLite's own bm25 counts those of all agents, so that one could tell
// from the order of its facts what others have in mind. What is pinned or matters more
// comes first among equals.
const ranked = `WITH hits AS (
	SELECT fact_words.rowid AS id, count(*) OVER (PARTITION BY asked.key) AS among
	FROM json_each(?1) AS asked JOIN fact_words ON fact_words MATCH asked.value
)
SELECT ` + columns + ` FROM (SELECT id AS hit, sum(ln(1 + ?2 / among)) AS score FROM hits GROUP BY id)
JOIN facts ON facts.id = hit AND facts.agent = ?3
ORDER BY score * (salience + ?4 * pinned) DESC, created DESC, id DESC LIMIT ?5`

// important finds facts without any word.
const important = "SELECT " + columns + " FROM facts WHERE agent = ?1 ORDER BY salience + ?2 * pinned DESC, created DESC, id DESC LIMIT ?3"

// Search finds facts of an agent that have some word of a text, the best first.
// A text without a word finds what matters most.
func (m *Memory) Search(ctx context.Context, agent config.AgentID, text string, limit int) ([]Fact, error) {
	const op = "search memory"
	if limit < 1 || limit > MaxFound {
		return nil, fault.Newf(fault.InvalidArgs, op, "", "%d facts cannot be asked for", limit).Advise(fmt.Sprintf("Ask for 1 to %d.", MaxFound))
	}
	asked := queries(agent, text)
	if len(asked) == 0 {
		return m.read(ctx, op, important, agent, pinnedBonus, limit)
	}
	list, err := json.Marshal(asked)
	if err != nil {
		return nil, fault.New(fault.Execution, op, "", err)
	}
	return m.read(ctx, op, ranked, string(list), float64(m.limit), agent, pinnedBonus, limit)
}

// queries asks for each word of a text among what an agent has. Nothing of the
// text is left that the language of FTS5 could understand: words are letters and
// digits between quotes.
func queries(agent config.AgentID, text string) (list []string) {
	seen := map[string]bool{}
	for _, word := range words(text[:min(len(text), maxQuery)]) {
		if word = strings.ToLower(word); !seen[word] && len(seen) < maxAsked {
			seen[word] = true
			list = append(list, fmt.Sprintf(`owner : "%s" AND content : "%s"`, owner(agent), word))
		}
	}
	return list
}

// owner is an agent in one word.
func owner(agent config.AgentID) string { return strings.ReplaceAll(string(agent), "-", "") }

// words are those of a text. Where a script has no spaces, each character is one.
func words(text string) (list []string) {
	begin := -1 // of the word that is being read
	end := func(at int) {
		if begin >= 0 {
			list = append(list, strings.ToValidUTF8(text[begin:min(at, begin+maxWord)], ""))
		}
		begin = -1
	}
	for at, r := range text {
		switch {
		case unicode.IsMark(r): // goes with what it stands on: FTS5 knows none alone
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai):
			end(at)
			list = append(list, string(r))
		case unicode.IsLetter(r) || unicode.IsNumber(r):
			if begin < 0 {
				begin = at
			}
		default:
			end(at)
		}
	}
	end(len(text))
	return list
}

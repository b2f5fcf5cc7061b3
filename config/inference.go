package config

import (
	"net/url"
	"regexp"
	"strings"
)

// Inference selects the model for agents and bounds its use.
type Inference struct {
	// BaseURL is an endpoint with OpenAI's API; empty is none.
	BaseURL InferenceURL
	// Model is the default model; empty is none.
	Model ModelName
	// RequestsPerDay and TokensPerDay bound each agent's use in 24 hours; 0 is no
	// limit.
	RequestsPerDay, TokensPerDay int
}

// The bounds and defaults of an agent's use per day. The defaults are more than an agent
// needs that works all day, and less than one uses that is stuck in a loop.
const (
	maxRequestsPerDay   = 86_400 // one a second
	maxTokensPerDay     = 1_000_000_000
	usualRequestsPerDay = 5_000
	usualTokensPerDay   = 5_000_000
)

func inferenceDefaults() Inference {
	return Inference{RequestsPerDay: usualRequestsPerDay, TokensPerDay: usualTokensPerDay}
}

func inferenceFields() table[Settings] {
	return table[Settings]{
		live(textField("inference.baseURL", "the endpoint that answers requests for inference, compatible with OpenAI's API", inferenceURLAllowed, parseInferenceURL, func(s *Settings) *InferenceURL { return &s.Inference.BaseURL })),
		live(textField("inference.model", "the model for requests that name none", modelAllowed+`, or ""`, parseUsualModel, func(s *Settings) *ModelName { return &s.Inference.Model })),
		live(intField("inference.requestsPerDay", "requests for inference that an agent may make in 24 hours; 0 is no limit", 0, maxRequestsPerDay, func(s *Settings) *int { return &s.Inference.RequestsPerDay })),
		live(intField("inference.tokensPerDay", "tokens that an agent may use in 24 hours; 0 is no limit", 0, maxTokensPerDay, func(s *Settings) *int { return &s.Inference.TokensPerDay })),
	}
}

// InferenceURL is the base URL of an endpoint for inference: "http://127.0.0.1:1337/v1".
type InferenceURL string

const (
	inferenceURLAllowed = `an http or https address ("http://127.0.0.1:1337/v1"), or "" for none`
	maxURL              = 512 // bytes
)

// parseInferenceURL parses an endpoint's URL. It must contain no credentials, because it is
// shown.
func parseInferenceURL(text string) (InferenceURL, error) {
	if text == "" {
		return "", nil
	}
	u, err := url.Parse(text)
	if err != nil || len(text) > maxURL || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" || u.User != nil || strings.ContainsAny(text, "?#") {
		return "", notAllowed("read address", text, inferenceURLAllowed)
	}
	return InferenceURL(strings.TrimRight(text, "/")), nil
}

// ModelName is an endpoint's name for a model: "llama3.2:3b", "qwen/qwen3-8b".
type ModelName string

const modelAllowed = "1 to 200 letters, digits, dots, dashes, underscores, colons, slashes, @ and +, and starts with a letter or digit"

// maxModel bounds a model's name in bytes.
const maxModel = 200

var modelText = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@+-]*$`)

// ParseModelName parses the name of a model.
func ParseModelName(text string) (ModelName, error) {
	if len(text) > maxModel || !modelText.MatchString(text) {
		return "", notAllowed("read model", text, modelAllowed)
	}
	return ModelName(text), nil
}

// parseUsualModel parses the default model, which may be empty.
func parseUsualModel(text string) (ModelName, error) {
	if text == "" {
		return "", nil
	}
	return ParseModelName(text)
}

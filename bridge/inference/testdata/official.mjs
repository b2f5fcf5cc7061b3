// What OpenAI's own client makes of the endpoint of the tests.
import OpenAI from "openai";

const client = new OpenAI({ baseURL: process.env.ENDPOINT, apiKey: process.env.KEY, maxRetries: 0 });
const messages = [{ role: "user", content: "one two three" }];
const whole = await client.chat.completions.create({ model: "echo", messages });
const stream = await client.chat.completions.create({ model: "echo", messages, stream: true, stream_options: { include_usage: true } });
const parts = [];
let usage = 0, reason = "";
for await (const chunk of stream) {
  if (chunk.choices[0]?.delta?.content) parts.push(chunk.choices[0].delta.content);
  reason = chunk.choices[0]?.finish_reason ?? reason;
  usage = chunk.usage?.total_tokens ?? usage;
}
const models = [];
for await (const model of client.models.list()) models.push(model.id);
const refused = async (call) => { try { await call(); return "not"; } catch (e) { return `${e.constructor.name} ${e.status}`; } };
const endless = await client.chat.completions.create({ model: "endless", messages, stream: true });
for await (const _ of endless) break; // which leaves it
console.log(JSON.stringify({
  whole: whole.choices[0].message.content, cost: whole.usage.total_tokens, parts, reason, usage, models,
  unknown: await refused(() => client.chat.completions.create({ model: "nobody", messages })),
  busy: await refused(() => client.chat.completions.create({ model: "status-429", messages })),
  stranger: await refused(() => new OpenAI({ baseURL: process.env.ENDPOINT, apiKey: "other", maxRetries: 0 }).models.list()),
}));

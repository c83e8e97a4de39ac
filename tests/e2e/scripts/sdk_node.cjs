// The Node SDK's own tool runner: it asks, runs the tools and asks again. `stream` as first argument.
const { readFileSync } = require('node:fs');
const OpenAI = require('openai').default;

const [mode, question] = process.argv.slice(2);
const tool = {
  type: 'function',
  function: {
    name: 'read_page',
    description: 'Read a page.',
    parameters: { type: 'object', properties: { path: { type: 'string' } }, required: ['path'] },
    parse: JSON.parse,
    function: ({ path }) => readFileSync(path, 'utf8'),
  },
};

async function main() {
  const messages = [
    { role: 'system', content: 'You are a careful reader.' },
    { role: 'user', content: question },
  ];
  const runner = new OpenAI().chat.completions.runTools(
    { model: 'strict-model', messages, tools: [tool], stream: mode === 'stream' },
    { maxChatCompletions: 100 },
  );
  console.log(await runner.finalContent());
}

main().catch((error) => {
  console.error(error.code, error.message);
  process.exit(1);
});

// Calls a tool by the SDK of TypeScript, after it has listed, and reads on in what was shortened.
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'

const [url, name, args, further] = process.argv.slice(2)
const client = new Client({ name: 'reader', version: '1' })
await client.connect(new StreamableHTTPClientTransport(new URL(url)))
const { tools } = await client.listTools()
const result = await client.callTool({ name, arguments: JSON.parse(args) })
const about = result._meta?.['agent-utilities/result'] ?? {}
const read = await client.callTool({ name: 'read_result', arguments: { result: about.handle, ...JSON.parse(further) } })
const schemas = tools.filter(tool => tool.outputSchema).length
console.log(JSON.stringify({ schemas, about, content: result.content.map(block => block.type), read: read.content }))
await client.close()

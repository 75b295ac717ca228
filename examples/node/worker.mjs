// node worker.mjs URL TASK [ATTEMPT]: goes on from the latest checkpoint, waits for the next ones, hands its state in.
// JSON.parse makes doubles of all numbers: above 2^53, keep them as strings or as BigInt with a parser of your own.
const [url, name, attempt] = process.argv.slice(2)
const task = encodeURIComponent(name)
const state = new Map([['count', 0]])
const ENDED = ['checkpoint_completed', 'checkpoint_expired', 'checkpoint_aborted', 'checkpoint_deleted', 'checkpoint_not_found']
const auth = process.env.CHECKPOINTD_TOKEN ? { Authorization: `Bearer ${process.env.CHECKPOINTD_TOKEN}` } : {}
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

class Refused extends Error {
  constructor({ code, detail }) {
    super(detail)
    this.code = code
  }
}

// call sends and receives lines of JSON. A server or a store that is away says nothing about checkpoints: it waits for them.
async function call(method, path, lines, media = 'application/json') {
  const body = lines?.map((line) => JSON.stringify(line) + '\n').join('')
  for (;;) {
    let answer, text, retryAfter
    try {
      const headers = body === undefined ? auth : { 'Content-Type': media, ...auth }
      answer = await fetch(url + path, { method, body, headers, signal: AbortSignal.timeout(90_000) })
      retryAfter = Number(answer.headers.get('Retry-After')) * 1000
      text = await answer.text()
      if (answer.ok) return text.split('\n').filter(Boolean).map((line) => JSON.parse(line))
    } catch {} // not there, broken off in the middle, or a proxy's page and no JSON
    const ours = answer?.headers.get('Content-Type')?.includes('problem+json') // and not the page of a proxy
    if (ours && text && answer.status !== 429 && (answer.status < 500 || answer.status === 507)) throw new Refused(JSON.parse(text))
    console.error(`${method} ${path}: ${answer?.status ?? 'no answer'}, trying again`)
    await pause(retryAfter || 200)
    if (method !== 'PUT') continue
    const [checkpoint] = await call('GET', path.split('/task/')[0])
    if (checkpoint.status !== 'pending') return [] // it is over, perhaps by what was sent
  }
}

// listen follows the job's events. Whatever it hears, also the sign of life every 15 seconds, wakes the worker to ask what
// is pending: so no event has to be understood, and none that was missed does harm. Without a stream the worker polls.
let listening = false
let wake = () => {}
async function listen() {
  for (;;) {
    const silence = new AbortController()
    const timer = setTimeout(() => silence.abort(), 45_000)
    try {
      const stream = await fetch(`${url}/events?type=checkpoint.triggered`, { headers: auth, signal: silence.signal })
      if (!stream.ok) throw new Error(stream.statusText)
      for await (const _ of stream.body) {
        listening = true // only now: a proxy may keep a stream to itself
        timer.refresh()
        wake()
      }
    } catch {} // there is none, or it broke off
    clearTimeout(timer)
    listening = false
    wake()
    await pause(200)
  }
}

async function takePart(id, life) {
  try {
    state.set('count', state.get('count') + 1) // the work of a real worker would be beside this
    const part = [...state].map(([key, value]) => ({ key, value }))
    await call('PUT', `/checkpoints/${id}/task/state?taskId=${task}&ack=true&${new URLSearchParams(life)}`, part, 'application/x-ndjson')
  } catch (why) {
    if (why.code?.startsWith('stale_')) throw why // the fleet has recovered, or a later life is about
    if (why.code === 'ack_conflict' || ENDED.includes(why.code)) return // it has the part, or is over: go on
    await call('POST', `/checkpoints/${id}/abort`, [{ taskId: name, reason: why.message, ...life }]).catch((refused) => {
      if (!ENDED.includes(refused.code)) throw refused
    })
  }
}

const [job] = await call('GET', '/jobs/default')
const life = { epoch: job.status.epoch, ...(attempt && { attempt: Number(attempt) }) }
const part = await call('GET', `/checkpoints/latest/restore?taskId=${task}`).catch((refused) => {
  if (['no_completed_checkpoint', 'task_not_in_checkpoint'].includes(refused.code)) return []
  throw refused
})
for (const { key, value } of part) state.set(key, value)
listen()
for (;;) {
  const woken = new Promise((resolve) => (wake = resolve)) // before the question: what comes meanwhile counts
  const [{ checkpoints }] = await call('GET', `/checkpoints?status=pending&notAckedBy=${task}&wait=${listening ? 0 : 30}`)
  for (const { checkpointId } of checkpoints.reverse()) await takePart(checkpointId, life)
  if (checkpoints.length === 0 && listening) await woken
}

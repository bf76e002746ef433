// Locks of Node libraries, driven by commands on standard input; see realclients_test.go.
'use strict'

const readline = require('readline')
const { createRequire } = require('module')
const [library, modules, host, port, key] = process.argv.slice(2)
const load = createRequire(modules + '/package.json')
const Redis = load('ioredis')
const redis = new Redis(Number(port), host)

// redlock is the lock of the redlock libraries, of which the first version names its calls otherwise.
function redlock (Library, acquire, release) {
  const once = new Library([redis], { retryCount: 0, automaticExtensionThreshold: 1 })
  const patient = new Library([redis], { retryCount: 300, retryDelay: 200, retryJitter: 100 })
  for (const lib of [once, patient]) lib.on && lib.on('error', () => {}) && lib.on('clientError', () => {})
  let lock
  return {
    async acquire (wait, ttl) { lock = await acquire(wait ? patient : once, ttl) },
    async release () { await release(lock, once) } // at once: a release is tried again as often as an acquisition
  }
}

const five = Library => redlock(Library, (lib, ttl) => lib.acquire([key], ttl), (lock, lib) => lib.release(lock))

const libraries = {
  redlock4: () => redlock(load('redlock4'), (lib, ttl) => lib.lock(key, ttl), (lock, lib) => lib.unlock(lock)),
  redlock5: () => five(load('redlock5').default),
  sesamecare: () => five(load('@sesamecare-oss/redlock').Redlock),
  'redis-semaphore': () => {
    const { Mutex } = load('redis-semaphore')
    let mutex
    return {
      async acquire (wait, ttl) {
        // It has the key mutex:name.
        mutex = new Mutex(redis, key.replace(/^mutex:/, ''), { lockTimeout: ttl, ...(wait ? { acquireTimeout: 60000 } : { acquireAttemptsLimit: 1 }) })
        await mutex.acquire()
      },
      async release () { await mutex.release() }
    }
  }
}

const lock = libraries[library]()
console.log('ready', library)
readline.createInterface({ input: process.stdin }).on('line', async line => {
  const [command, ttl] = line.split(' ')
  try {
    if (command === 'release') {
      await lock.release()
      console.log('released')
    } else {
      await lock.acquire(command === 'wait', Number(ttl))
      console.log('held')
    }
  } catch (e) {
    console.log(command === 'release' ? 'lost' : 'taken', String(e).split('\n')[0])
  }
}).on('close', () => process.exit(0))

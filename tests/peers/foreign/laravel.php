<?php

// The lock of Laravel's cache, driven by commands on standard input; see realclients_test.go. Its
// connection comes from illuminate/redis, which is not packaged: the class below does with phpredis
// what that one does for the three calls of the lock.

require '/usr/share/php/Illuminate/Cache/autoload.php';

class Connection
{
    private $redis;

    public function __construct($host, $port)
    {
        $this->redis = new Redis();
        $this->redis->connect($host, (int) $port);
    }

    public function set($key, $value, $unit, $seconds, $flag)
    {
        return $this->redis->set($key, $value, [$flag, $unit => $seconds]);
    }

    public function eval($script, $keys, ...$arguments)
    {
        return $this->redis->eval($script, $arguments, $keys);
    }
}

[, $host, $port, $key] = $argv;
$connection = new Connection($host, $port);
$lock = null;
echo "ready Laravel's cache with phpredis ", phpversion('redis'), "\n";
while (($line = fgets(STDIN)) !== false) {
    [$command, $ttl] = explode(' ', trim($line)) + [1 => 0];
    if ($command === 'release') {
        echo $lock->release() ? "released\n" : "lost\n";
        continue;
    }
    $lock = new Illuminate\Cache\RedisLock($connection, $key, (int) ceil($ttl / 1000));
    if ($command === 'wait') {
        try {
            $held = $lock->block(60);
        } catch (Illuminate\Contracts\Cache\LockTimeoutException $e) {
            $held = false;
        }
    } else {
        $held = $lock->acquire();
    }
    echo $held ? "held\n" : "taken\n";
}

// A wall clock that is off by what a file says, in microseconds, for the process that this library is loaded into.

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *offset;

static int64_t ahead(void) {
	if (offset) return *offset;
	const char *path = getenv("REDLATCH_WALLCLOCK");
	int file = path ? open(path, O_RDONLY) : -1;
	if (file < 0) return 0;
	void *page = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
	close(file);
	if (page == MAP_FAILED) return 0;
	offset = page;
	return *offset;
}

int clock_gettime(clockid_t id, struct timespec *t) {
	int failed = syscall(SYS_clock_gettime, id, t);
	if (failed || (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE)) return failed;
	int64_t us = t->tv_sec * 1000000LL + t->tv_nsec / 1000 + ahead();
	t->tv_nsec = us % 1000000 * 1000 + t->tv_nsec % 1000;
	t->tv_sec = us / 1000000;
	return 0;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone) {
	(void)zone;
	struct timespec t;
	if (clock_gettime(CLOCK_REALTIME, &t)) return -1;
	tv->tv_sec = t.tv_sec;
	tv->tv_usec = t.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *into) {
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	if (into) *into = t.tv_sec;
	return t.tv_sec;
}

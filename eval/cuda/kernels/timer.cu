// What the timer puts around launches.

struct Stamp {
  u64 nanoseconds, cycles, sm, timed_out;
};

__device__ u64 GlobalTimer() {
  u64 now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

extern "C" __global__ void grove_stamp(Stamp* stamp) {
  u32 sm;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  // Cycle counter and clock are read until they are read close together.
  const u64 before = GlobalTimer();
  stamp->cycles = static_cast<u64>(clock64());
  const u64 after = GlobalTimer();
  stamp->nanoseconds = before + (after - before) / 2;
  stamp->sm = sm;
}

// Spins until the host opens the gate, so that everything behind it is enqueued before it starts.
extern "C" __global__ void grove_block(const volatile u32* flag, u32 token, u64 timeout,
                                       Stamp* stamp) {
  const u64 begin = GlobalTimer();
  while (static_cast<int>(*flag - token) < 0) {
    if (GlobalTimer() - begin > timeout) {
      stamp->timed_out = 1;
      return;
    }
  }
}

extern "C" __global__ void grove_empty() {}

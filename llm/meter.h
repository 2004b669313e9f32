// What a client tells about the attempts of a request that somebody pays for, so that each is
// reserved before it is sent. Implemented by the ledger; called on a transport's I/O thread, by one
// thread at a time, and must not take longer than a transaction of the store.
#pragma once

namespace grove::llm {

class Meter {
 public:
  virtual ~Meter() = default;
  // An attempt failed and another would follow. `billed`: the provider may charge for the failed
  // one (it was sent, and not refused). False: there is no budget for another; the request ends.
  virtual bool Again(bool billed) = 0;
  // The request failed for good; `billed` as above, of its last attempt. Not called after Again
  // said false.
  virtual void Ended(bool billed) = 0;
};

}  // namespace grove::llm

// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <memory>
#include <optional>
#include <tw/data/dataset.hpp>

namespace tw {

/// Copies batches to a device through pinned memory, in its own stream, concurrently with computation. A no-op for the CPU.
class Upload {
 public:
  explicit Upload(c10::Device device);

  /// A batch that may still be in flight.
  struct Sent {
    Batch batch;
    std::shared_ptr<c10::Event> arrived;  // null: already there
  };
  /// Callable on any thread.
  Sent send(Batch batch) const;
  /// Makes the current stream, but not the host, wait for the batch.
  Batch receive(Sent sent) const;

 private:
  c10::Device device_;
  std::optional<c10::Stream> stream_;
};

}  // namespace tw

// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <memory>
#include <optional>
#include <tw/data/dataset.hpp>

namespace tw {

/// Takes batches to a device through pinned memory, in a stream of its own, beside what computes there. For the CPU it does nothing.
class Upload {
 public:
  explicit Upload(c10::Device device);

  /// A batch that may still be on its way.
  struct Sent {
    Batch batch;
    std::shared_ptr<c10::Event> arrived;  // null: it is there
  };
  /// On any thread.
  Sent send(Batch batch) const;
  /// For the current stream, which waits until it is there; the host does not.
  Batch receive(Sent sent) const;

 private:
  c10::Device device_;
  std::optional<c10::Stream> stream_;
};

}  // namespace tw

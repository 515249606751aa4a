// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <tw/mpi/engine.hpp>

namespace tw {

/// The way of one operation's tensors between a device and pinned memory of the host: copies in a stream of their own, which begin after all that the
/// current stream had in flight when this was made. The host never waits for the device.
class Staging : public mpi::Completion {
 public:
  explicit Staging(c10::Device device);

  /// Begins to copy `tensor` into `host`, which is pinned and contiguous.
  void bring(const at::Tensor& tensor, const at::Tensor& host);
  /// Whether all that was begun to be brought is there.
  bool has_arrived() { return arrived_.query(); }

  /// Begins to copy `host` into `tensor`; from any thread.
  void give_back(const at::Tensor& host, const at::Tensor& tensor);
  void join_stream() override;
  void wait_on_host() override;

 private:
  c10::Device device_;
  c10::Stream stream_;
  c10::Event arrived_;
  c10::Event returned_;
};

}  // namespace tw

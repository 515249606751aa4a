// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <functional>
#include <optional>
#include <tw/mpi/engine.hpp>
#include <tw/tensor/record_stream.hpp>

namespace tw {

/// A stream for one operation on device tensors. Its work begins after everything that the current stream had in flight at the construction. A wait
/// for the operation makes the current stream wait for this one; only wait_on_host() makes the host wait.
class OperationStream : public mpi::Completion {
 public:
  /// @param give_up ends work on the stream that depends on other ranks, if they may never do their part; empty: there is no such work
  explicit OperationStream(c10::Device device, std::function<void()> give_up = {});

  const c10::Stream& stream() const noexcept { return stream_; }

  /// Memory for the stream's work: device memory, which other streams may use once everything has arrived, or pinned host memory.
  at::Tensor memory(at::IntArrayRef sizes, at::ScalarType dtype, bool on_device);
  /// Starts copying `tensor` into `packed`, which is contiguous.
  void copy_in(const at::Tensor& tensor, const at::Tensor& packed);
  /// Call it before parts are copied in and out.
  void begin_parts();
  /// Starts copying one part; returns a function that reports whether it has arrived.
  std::function<bool()> copy_in_part(const at::Tensor& tensor, const at::Tensor& packed);
  /// `tensor` as a contiguous tensor; copied on the stream if it is not contiguous already.
  at::Tensor flat(const at::Tensor& tensor) const;
  /// Marks `tensor` as used by the stream's work.
  void use(const at::Tensor& tensor) const { record_stream(tensor, stream_); }
  /// Whether the work in flight at the start, and all copies since, have finished.
  bool has_arrived() { return arrived_.query(); }

  /// Starts copying `packed` into `tensor`; from any thread.
  void copy_out(const at::Tensor& packed, const at::Tensor& tensor) const;
  /// The same for a part, on a second stream, so that it overlaps with the copying in of others.
  void copy_out_part(const at::Tensor& packed, const at::Tensor& tensor);
  /// Marks the end of the stream's work.
  void end();
  void join_stream() override;
  void wait_on_host() override;
  bool is_watched() const override { return give_up_ != nullptr; }
  bool is_done() override { return returned_.query(); }
  void give_up() override {
    if (give_up_) give_up_();
  }

 private:
  c10::Device device_;
  c10::Stream stream_;
  std::optional<c10::Stream> back_;  // for copying parts out
  c10::Event arrived_;
  c10::Event returned_;
  std::function<void()> give_up_;
};

}  // namespace tw

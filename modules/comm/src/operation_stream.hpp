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

/// A stream for one operation on tensors of a device. It begins after all that the current stream had in flight when this was made; whoever waits for
/// the operation makes the current stream wait for it. The host never does.
class OperationStream : public mpi::Completion {
 public:
  /// @param give_up ends the stream's work, which other ranks take part in, where they may never do; empty: it is not such work
  explicit OperationStream(c10::Device device, std::function<void()> give_up = {});

  const c10::Stream& stream() const noexcept { return stream_; }

  /// Memory for the stream's own work: of the device, where others may use it once all has arrived, or pinned memory of the host.
  at::Tensor memory(at::IntArrayRef sizes, at::ScalarType dtype, bool on_device);
  /// Begins to copy `tensor` into `packed`, which is contiguous.
  void copy_in(const at::Tensor& tensor, const at::Tensor& packed);
  /// To be called before parts are brought and given back.
  void begin_parts();
  /// Begins to copy one; gives something that says whether it is there.
  std::function<bool()> copy_in_part(const at::Tensor& tensor, const at::Tensor& packed);
  /// `tensor` one element after the other; a copy made in the stream, where it is not.
  at::Tensor flat(const at::Tensor& tensor) const;
  /// The stream's work uses `tensor`.
  void use(const at::Tensor& tensor) const { record_stream(tensor, stream_); }
  /// Whether all that was in flight, and has been brought since, is there.
  bool has_arrived() { return arrived_.query(); }

  /// Begins to copy `packed` into `tensor`; from any thread.
  void copy_out(const at::Tensor& packed, const at::Tensor& tensor) const;
  /// The same of a part, while others are brought: beside them, not behind.
  void copy_out_part(const at::Tensor& packed, const at::Tensor& tensor);
  /// The stream has got all its work.
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
  std::optional<c10::Stream> back_;  // of parts
  c10::Event arrived_;
  c10::Event returned_;
  std::function<void()> give_up_;
};

}  // namespace tw

// SPDX-License-Identifier: Apache-2.0
#include <tw/comm/collectives.hpp>
#include <tw/gradients/compression.hpp>

#include "residuals.hpp"

namespace tw {
namespace {

class HalfCompression : public Compressor {
 public:
  explicit HalfCompression(c10::ScalarType dtype) : dtype_(dtype) {}

  std::string describe() const override { return dtype_name(dtype_); }

  void prepare(const BucketPlan& /*plan*/, const std::vector<TensorSpec>& gradients, c10::Device /*device*/) override {
    expect_compressible("half precision", gradients);
  }

  BucketSum begin(const Communicator& comm, size_t /*bucket*/, const at::Tensor& values) override {
    const at::Tensor half = values.to(dtype_);
    return {iallreduce(comm, half, ReduceOp::sum), static_cast<int64_t>(half.nbytes()), [=] { values.copy_(half); }};
  }

 private:
  c10::ScalarType dtype_;
};

}  // namespace

std::shared_ptr<Compressor> half_compression(HalfPrecision precision) {
  return std::make_shared<HalfCompression>(precision == HalfPrecision::float16 ? at::kHalf : at::kBFloat16);
}

}  // namespace tw

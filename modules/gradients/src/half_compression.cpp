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

  int64_t reduce(const Communicator& comm, size_t /*bucket*/, const at::Tensor& values) override {
    const at::Tensor half = values.to(dtype_);
    allreduce(comm, half, ReduceOp::sum);
    values.copy_(half);
    return static_cast<int64_t>(half.nbytes());
  }

 private:
  c10::ScalarType dtype_;
};

}  // namespace

std::shared_ptr<Compressor> half_compression(HalfPrecision precision) {
  return std::make_shared<HalfCompression>(precision == HalfPrecision::float16 ? at::kHalf : at::kBFloat16);
}

}  // namespace tw

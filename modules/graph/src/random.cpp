// SPDX-License-Identifier: Apache-2.0
#include "random.hpp"

#include "arguments.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/lt.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/where.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/base/random.hpp>
#include <tw/tensor/on_cpu.hpp>

namespace tw::graph {
namespace {

using Arguments = std::vector<c10::IValue>;
using Transform = double (*)(CounterRng& numbers, double a, double b);

double between(CounterRng& numbers, double from, double to) { return from + (to - from) * uniform(numbers); }
double normal(CounterRng& numbers, double mean, double deviation) { return mean + deviation * tw::normal(numbers); }
/// Kept above 0, so that the logarithm is finite.
double exponential(CounterRng& numbers, double rate, double /*unused*/) { return -std::log1p(-std::max(uniform(numbers), 0x1p-54)) / rate; }

/// Value of `of` for the middle of its random number's range.
double middle_of(Transform of, double a, double b) {
  if (of == between) return (a + b) / 2;
  return of == normal ? a : std::numbers::ln2 / a;
}

template <class T>
void fill_rows(T* out, int64_t rows, int64_t columns, const Numbers& of, const auto& number) {
  for (int64_t row = 0; row < rows; ++row) {
    CounterRng numbers(of.seed, of.place ? static_cast<uint64_t>(of.first + row) : 0);
    for (int64_t i = 0; i < columns; ++i) *out++ = number(numbers);
  }
}

/// A tensor of `sizes`, filled row by row with `number`, wherever the rows lie. Drawn on the host, so that it is the same on all devices, and copied
/// to `device` without waiting.
template <class T>
at::Tensor by_rows(at::IntArrayRef sizes, c10::Device device, const Numbers& of, const auto& number) {
  const bool goes_away = at::accelerator::isAccelerator(device.type());
  const auto options = at::TensorOptions().dtype(c10::CppTypeToScalarType<T>::value).pinned_memory(goes_away);
  const int64_t elements = c10::multiply_integers(sizes);
  const bool whole = !of.place || elements == 0;
  const int64_t rows = whole ? 1 : of.rows;
  // [rows, dimensions before, outer, inner, dimensions after]; reshaped below.
  std::vector<int64_t> split;
  size_t dimension = 0;
  if (!whole) {
    dimension = static_cast<size_t>(of.place->dimension);
    if (sizes[dimension] != of.place->outer * rows * of.place->inner)
      throw Error(concat("the random tensor that it draws, of shape ", sizes, ", does not have ", rows, " rows"));
    split.assign(sizes.begin(), sizes.begin() + of.place->dimension);
    split.insert(split.end(), {of.place->outer, of.place->inner});
    split.insert(split.end(), sizes.begin() + of.place->dimension + 1, sizes.end());
    split.insert(split.begin(), rows);
  }
  at::Tensor drawn = at::empty(whole ? sizes : at::IntArrayRef(split), options);
  fill_rows(drawn.mutable_data_ptr<T>(), rows, elements / std::max<int64_t>(rows, 1), of, number);
  if (goes_away) drawn = drawn.to(device, /*non_blocking=*/true);
  return whole ? drawn : drawn.movedim(0, static_cast<int64_t>(dimension) + 1).reshape(sizes);
}

at::Tensor numbers_of(at::IntArrayRef sizes, c10::Device device, const Numbers& of, Transform transform, double a = 0, double b = 1) {
  return by_rows<double>(sizes, device, of, [&](CounterRng& numbers) { return of.middle ? middle_of(transform, a, b) : transform(numbers, a, b); });
}

/// One number for each element of `like`.
at::Tensor numbers_of(const at::Tensor& like, const Numbers& of, Transform transform, double a = 0, double b = 1) {
  return numbers_of(like.sizes(), like.device(), of, transform, a, b);
}

/// Zero with probability p, otherwise 1 / (1 - p). T must be at least as precise as `input`.
template <class T>
at::Tensor dropout_factors(const at::Tensor& input, double p, const Numbers& of) {
  const auto threshold = static_cast<uint64_t>(std::ldexp(p, 32));  // numbers below it become zero
  const auto kept = static_cast<T>(1 / (1 - p));
  return by_rows<T>(input.sizes(), input.device(), of, [&](CounterRng& numbers) { return of.middle ? T{1} : numbers() < threshold ? T{0} : kept; });
}

at::Tensor dropout(const at::Tensor& input, double p, const Numbers& of) {
  if (p == 0 || input.numel() == 0) return input;
  const bool is_double = c10::toRealValueType(input.scalar_type()) == at::kDouble;
  const at::Tensor factors = is_double ? dropout_factors<double>(input, p, of) : dropout_factors<float>(input, p, of);
  return at::mul(input, factors.to(input.options()));
}

at::Tensor bernoulli(const at::Tensor& probabilities, const Numbers& of) {
  const c10::AutoGradMode no_gradients(false);
  return at::lt(numbers_of(probabilities, of, between), probabilities);
}

at::Tensor bernoulli(const at::Tensor& like, double p, const Numbers& of) { return numbers_of(like, of, between).lt(p); }

/// Like LibTorch: multiplies non-positive elements by a number between `lower` and `upper`, and stores the slopes in `noise`.
at::Tensor rrelu(const Arguments& arguments, const Numbers& of, bool in_place) {
  const at::Tensor input = arguments[0].toTensor();
  const at::Tensor noise = arguments[1].toTensor();
  const at::Tensor slopes = numbers_of(input, of, between, arguments[2].toScalar().toDouble(), arguments[3].toScalar().toDouble());
  {
    const c10::AutoGradMode no_gradients(false);
    noise.copy_(at::where(input.detach().gt(0), at::ones_like(slopes), slopes));
  }
  return in_place ? input.mul_(noise) : input.mul(noise);
}

/// `numbers` of [from, to) converted to `type`, without values rounded up to `to`.
at::Tensor rounded_below(const at::Tensor& numbers, double from, double to, at::ScalarType type) {
  if (type == at::kDouble) return numbers;
  const double precision = type == at::kFloat ? 0x1p-24 : type == at::kHalf ? 0x1p-11 : 0x1p-8;
  const double half_a_step = std::abs(to != 0 ? to : from) * precision;  // a whole step if `to` is a power of two
  const auto last = at::scalar_tensor(to - half_a_step, at::kDouble).to(type).item<double>();
  return numbers.to(type).clamp_max(std::max(last, from));
}

at::Tensor filled(const at::Tensor& tensor, const at::Tensor& values) {
  return at::Tensor(tensor).copy_(values);  // recorded by autograd
}

/// For rand(), randn() and similar: arguments 1 and 3 are dtype and device; without them, those of `options` apply.
at::Tensor as_asked(const Arguments& arguments, at::IntArrayRef sizes, at::TensorOptions options, const Numbers& of, Transform transform) {
  if (!arguments.at(1).isNone()) options = options.dtype(arguments.at(1).toScalarType());
  if (!arguments.at(3).isNone()) options = options.device(arguments.at(3).toDevice());
  const at::Tensor numbers = numbers_of(sizes, options.device(), of, transform);
  const at::ScalarType to = c10::typeMetaToScalarType(options.dtype());
  return transform == between ? rounded_below(numbers, 0, 1, to) : numbers.to(options);
}

using Draw = at::Tensor (*)(const Arguments&, const Numbers&);

// By name without overload; arguments as in LibTorch's native_functions.yaml.
const std::map<std::string, Draw>& table() {
  static const std::map<std::string, Draw> all{
      {"aten::dropout", [](const Arguments& a, const Numbers& n) { return dropout(a[0].toTensor(), a[1].toDouble(), n); }},
      {"aten::bernoulli",
       [](const Arguments& a, const Numbers& n) {  // overload .p has a probability instead of the generator
         const at::Tensor self = a[0].toTensor();
         return (a[1].isDouble() ? bernoulli(self, a[1].toDouble(), n) : bernoulli(self, n)).to(self.scalar_type());
       }},
      {"aten::bernoulli_",
       [](const Arguments& a, const Numbers& n) {
         const at::Tensor self = a[0].toTensor();
         return filled(self, a[1].isTensor() ? bernoulli(a[1].toTensor().expand_as(self), n) : bernoulli(self, a[1].toDouble(), n));
       }},
      {"aten::uniform_",
       [](const Arguments& a, const Numbers& n) {
         const at::Tensor self = a[0].toTensor();
         const double from = a[1].toDouble();
         const double to = a[2].toDouble();
         return filled(self, rounded_below(numbers_of(self, n, between, from, to), from, to, self.scalar_type()));
       }},
      {"aten::normal_",
       [](const Arguments& a, const Numbers& n) {
         return filled(a[0].toTensor(), numbers_of(a[0].toTensor(), n, normal, a[1].toDouble(), a[2].toDouble()));
       }},
      {"aten::exponential_",
       [](const Arguments& a, const Numbers& n) { return filled(a[0].toTensor(), numbers_of(a[0].toTensor(), n, exponential, a[1].toDouble())); }},
      {"aten::rand_like",
       [](const Arguments& a, const Numbers& n) { return as_asked(a, a[0].toTensor().sizes(), a[0].toTensor().options(), n, between); }},
      {"aten::randn_like",
       [](const Arguments& a, const Numbers& n) { return as_asked(a, a[0].toTensor().sizes(), a[0].toTensor().options(), n, normal); }},
      {"aten::rand", [](const Arguments& a, const Numbers& n) { return as_asked(a, a[0].toIntVector(), {}, n, between); }},
      {"aten::randn", [](const Arguments& a, const Numbers& n) { return as_asked(a, a[0].toIntVector(), {}, n, normal); }},
      {"aten::rrelu_with_noise", [](const Arguments& a, const Numbers& n) { return rrelu(a, n, false); }},
      {"aten::rrelu_with_noise_", [](const Arguments& a, const Numbers& n) { return rrelu(a, n, true); }},
  };
  return all;
}

}  // namespace

bool draws(const c10::OperatorHandle& op, const Arguments& arguments) {
  if (!op.hasTag(at::Tag::nondeterministic_seeded)) return false;
  const auto& declared = op.schema().arguments();
  for (size_t i = 0; i < declared.size(); ++i) {
    const std::string& name = declared[i].name();
    if ((name == "train" || name == "training") && arguments[i].isBool() && !arguments[i].toBool()) return false;
    if ((name == "dropout_p" || name == "dropout" || name == "p") && arguments[i].isDouble() && arguments[i].toDouble() == 0) return false;
  }
  return true;
}

bool draws(const Node& node) {
  const auto op = c10::Dispatcher::singleton().findSchema({node.op, node.overload});
  Arguments arguments;
  for (const Argument& each : node.arguments) arguments.push_back(ivalue_of(each, 0));
  return op && draws(*op, arguments);
}

bool can_draw(const std::string& op) { return table().contains(op); }

bool is_made_of_others(const c10::OperatorHandle& op) {
  return !can_draw(op.operator_name().name) && op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
}

at::Tensor draw(const std::string& op, const Arguments& arguments, const Numbers& numbers) { return table().at(op)(arguments, numbers); }

}  // namespace tw::graph

// faltung.hpp: moves, spans, defaults, one call, and exceptions that carry the status and the message.
#include <array>
#include <cstdio>
#include <cstring>
#include <faltung/faltung.hpp>
#include <type_traits>
#include <vector>

static int failures;

static void expect(bool fine, const char *what) {
  if (!fine) std::fprintf(stderr, "FAILED: %s\n", what);
  failures += !fine;
}

static_assert(!std::is_copy_constructible_v<faltung::device> && std::is_nothrow_move_constructible_v<faltung::device>);
static_assert(!std::is_copy_constructible_v<faltung::plan> && std::is_nothrow_move_assignable_v<faltung::plan>);
static_assert(!std::is_copy_constructible_v<faltung::memory> && std::is_nothrow_move_assignable_v<faltung::memory>);

// The status of the exception that a body throws; FALT_OK if none.
template <typename Body>
static falt_status thrown_by(const char *words, Body body) {
  try {
    body();
    return FALT_OK;
  } catch (const faltung::error &error) {
    expect(std::strstr(error.what(), words) != nullptr, error.what());
    return error.status();
  }
}

static void test_plan() {
  faltung::device device = faltung::device::cpu();
  faltung::device moved = std::move(device);
  expect(device.get() == nullptr && device.threads() == 0 && moved.threads() >= 1, "a device moves");
  faltung::plan plan(moved, faltung::parse("correlate w=5 s=3"));
  faltung::plan other(moved, "correlate w=4 s=1 max-workspace=0");
  expect(other.workspace() == 0 && !plan.print().empty() && plan.print().front() == '(' && plan.print().back() == ')',
         "a plan prints itself");
  const std::vector<float> x = {4, 1, 3, 2, 3};
  const float w[] = {2, 1, 4};
  std::array<float, 5> y{};
  plan.execute_host(faltung::span<const float>(x), faltung::span<const float>(w), faltung::span<float>(y));
  expect(y == std::array<float, 5>{8, 21, 13, 20, 7}, "a correlation");
  other = std::move(plan);
  expect(plan.get() == nullptr && plan.workspace() == 0, "a plan moves");
  expect(thrown_by("output",
                   [&] {
                     other.execute_host(faltung::span<const float>(x), faltung::span<const float>(w),
                                        faltung::span<float>(y.data(), 4));
                   }) == FALT_INVALID_SIZE,
         "a span that is too short");
}

static void test_memory() {
  const faltung::device device = faltung::device::cpu();
  const faltung::plan plan(device, "correlate w=8 s=1");
  faltung::memory x(device, 32), y(device, 32), workspace(device, plan.workspace() + 1);
  std::memset(x.data(), 0, x.size_bytes());
  const float w[] = {1};
  falt_operands operands = faltung::no_operands();
  operands.input = x.data();
  operands.filter = const_cast<float *>(w);
  operands.output = y.data();
  operands.workspace = workspace.data();
  plan.execute(operands);
  expect(std::memcmp(x.data(), y.data(), 32) == 0, "a copy");
  faltung::memory moved = std::move(x);
  expect(x.data() == nullptr && moved.size_bytes() == 32, "memory moves");
  x = std::move(moved);
  expect(x.size_bytes() == 32, "and back");
  operands.output = operands.input;
  expect(thrown_by("shares", [&] { plan.execute(operands); }) == FALT_INVALID_ARGUMENT, "operands that meet");
}

static void test_errors() {
  expect(thrown_by("bogus", [] { faltung::parse("forward bogus=1"); }) == FALT_INVALID_TEXT, "a line");
  const faltung::device device = faltung::device::cpu();
  falt_budget budget = faltung::default_budget();
  std::strcpy(budget.method, "direct-nhcw");
  expect(
      thrown_by("direct-nhwc", [&] { faltung::plan(device, faltung::default_problem(), budget); }) == FALT_INVALID_METHOD,
      "a method");
}

static void test_one_call() {
  const float x[] = {1, 2, 3, 4}, w[] = {0.5f, 0.5f};
  float y[5];
  falt_options options = faltung::default_options();
  options.space = 1;
  options.mode = FALT_FULL;
  faltung::convolve(falt_const_volume(x, FALT_F32, 1, 1, 4), falt_const_volume(w, FALT_F32, 1, 1, 2),
                    falt_volume(y, FALT_F32, 1, 1, 5), options);
  expect(y[0] == 0.5f && y[1] == 1.5f && y[4] == 2, "a convolution");
}

int main() {
  test_plan();
  test_memory();
  test_errors();
  test_one_call();
  return failures != 0;
}

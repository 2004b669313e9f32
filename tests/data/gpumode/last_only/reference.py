import torch


def generate_input(rows, columns, seed):
    torch.manual_seed(seed)
    return torch.randn(rows, columns)


def ref_kernel(data):
    values, places = torch.max(data, dim=-1)
    return values, places


def check_implementation(data, output):
    values, places = ref_kernel(data)
    good = torch.equal(values, output[0]) and torch.equal(places, output[1])
    return good, "" if good else "differs"

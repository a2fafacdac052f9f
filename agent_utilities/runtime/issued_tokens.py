"""How the keys and tokens of well-known issuers begin."""

from __future__ import annotations

import re

ISSUED = re.compile(
    r"""(?:sk|pk|rk)[-_](?:live|test|proj|ant|or|svcacct|admin)[-_][A-Za-z0-9_-]{6}
    | sk-(?=[A-Za-z]{0,40}\d)[A-Za-z0-9]{16}
    | gh[pousr]_[A-Za-z0-9]{10} | github_pat_[A-Za-z0-9_]{6} | gl[a-z]{1,5}-[A-Za-z0-9_-]{20}
    | A(?:KI|SI|GP|ID|RO|NP|BI|CC)A[A-Z0-9]{12} | xox[a-z]-[A-Za-z0-9-]{6} | xapp-\d | eyJ[A-Za-z0-9_-]{8}
    | AIza[A-Za-z0-9_-]{10} | ya29\.[A-Za-z0-9_-]{6} | (?:hf|npm|gsk|r8|lin_api|figd|whsec|ntn)_[A-Za-z0-9]{20}
    | do[opr]_v1_[a-f0-9]{10} | SG\.[A-Za-z0-9_-]{10} | shp[a-z]{2}_[A-Fa-f0-9]{10} | sq0[a-z]{3}-
    | hv[bs]\.[A-Za-z0-9_-]{10}
    | pypi-Ag | tskey- | nvapi- | PMAK- | AGE-SECRET-KEY-""",
    re.VERBOSE,
)
